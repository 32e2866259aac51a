"""The locks that are held for moments: `lock/append`, `lock/commit`, and that of the change marks.

Taking one is bounded: a process that was stopped while it had it must not hang all others. The refusal names
that process, which is looked up only then. Who finds a session's lock taken at every look, by processes that get
their work done, goes on waiting: what they append or commit is the sign of life.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from segue.errors import SessionBusy
from segue.stores.admission import no_session
from segue.stores.git.forks import close_lock, open_lock

if TYPE_CHECKING:
    from segue.stores.git.layout import SessionPaths

LOCK_SECONDS = 10.0
"""How long a lock may be held without a sign of life before those who want it give up."""
_PAUSES = (0.0001, 0.001)
"""Seconds between two tries: the first, and the longest."""
_LOCKS = Path("/proc/locks")


def try_lock(descriptor: int, operation: int = fcntl.LOCK_EX) -> bool:
    """Raises OSError."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock(
    descriptor: int,
    what: str,
    sign: Callable[[], object] = lambda: None,
    operation: int = fcntl.LOCK_EX,
) -> None:
    """Take a lock. One call to the system when it is free.

    `what` is busy while it is taken. `sign` gives a value that changes while those who have the lock make progress:
    who is only unlucky goes on waiting. Raises `SessionBusy` naming the process that has it, OSError.
    """
    if try_lock(descriptor, operation):
        return
    seen, deadline, pause = sign(), time.monotonic() + LOCK_SECONDS, _PAUSES[0]
    while not try_lock(descriptor, operation):
        if time.monotonic() > deadline:
            last, seen = seen, sign()
            if seen == last:
                raise _held_too_long(descriptor, what)
            deadline = time.monotonic() + LOCK_SECONDS
        time.sleep(pause)
        pause = min(pause * 1.5, _PAUSES[1])


def opened(paths: SessionPaths, path: Path) -> int:
    """A descriptor for one of the session's locks. Raises `SessionNotFound`, OSError."""
    try:
        return open_lock(path)
    except FileNotFoundError:
        if not paths.exists():
            raise no_session(paths.session_id) from None
    path.parent.mkdir(mode=0o700, exist_ok=True)  # somebody removed the folder of the locks
    return open_lock(path)


def is_current(descriptor: int, path: Path) -> bool:
    """Whether the file of this descriptor is still the one under that path. Raises OSError."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)


@contextlib.contextmanager
def locked_file(paths: SessionPaths, path: Path, sign: Callable[[], object]) -> Iterator[None]:
    """Hold one of the session's locks, through a descriptor of our own.

    Raises `SessionBusy`, `SessionNotFound`, OSError.
    """
    descriptor = opened(paths, path)
    try:
        lock(descriptor, f"session {paths.session_id}", sign)
        while not is_current(descriptor, path):  # the session was deleted, or the file, while we waited
            unlock(descriptor)
            descriptor = opened(paths, path)
            lock(descriptor, f"session {paths.session_id}", sign)
        yield
    finally:
        unlock(descriptor)


@contextlib.contextmanager
def locked_to_look(
    paths: SessionPaths, path: Path, sign: Callable[[], object], operation: int = fcntl.LOCK_SH
) -> Iterator[None]:
    """Like `locked_file`, for who may have no right to write: a lock that is missing is not made.

    Raises `SessionBusy`, OSError.
    """
    try:
        descriptor = open_lock(path, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        lock(descriptor, f"session {paths.session_id}", sign, operation)
        yield
    finally:
        unlock(descriptor)


@contextlib.contextmanager
def locked_file_if_free(paths: SessionPaths, path: Path) -> Iterator[bool]:
    """Like `locked_file`, but gives False when somebody has it, or the session was deleted meanwhile."""
    descriptor = opened(paths, path)
    try:
        yield try_lock(descriptor) and is_current(descriptor, path)
    finally:
        unlock(descriptor)


def unlock(descriptor: int) -> None:
    """Free the lock and close its descriptor. Freed by name: closing would leave it to whoever has a copy."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    close_lock(descriptor)


def append_lock(paths: SessionPaths) -> contextlib.AbstractContextManager[None]:
    return locked_file(paths, paths.append_lock, lambda: _version(paths.acknowledged))


@contextlib.contextmanager
def commit_lock(paths: SessionPaths) -> Iterator[None]:
    """Whoever waits for it has `lock/next`: so nobody who gives it back can have it again first.

    Raises `SessionBusy`, `SessionNotFound`, OSError.
    """
    with contextlib.ExitStack() as held:
        with locked_file(paths, paths.next_lock, lambda: _version(paths.branch)):
            held.enter_context(locked_file(paths, paths.commit_lock, lambda: _version(paths.branch)))
        yield


@contextlib.contextmanager
def nobody_commits(paths: SessionPaths) -> Iterator[None]:
    """Share the commit lock, without a right to write. Raises `SessionBusy`, OSError."""
    with contextlib.ExitStack() as held:
        with locked_to_look(paths, paths.next_lock, lambda: _version(paths.branch), fcntl.LOCK_EX):
            held.enter_context(locked_to_look(paths, paths.commit_lock, lambda: _version(paths.branch)))
        yield


def nobody_appends(paths: SessionPaths) -> contextlib.AbstractContextManager[None]:
    """Share the append lock, without a right to write. Raises `SessionBusy`, OSError."""
    return locked_to_look(paths, paths.append_lock, lambda: _version(paths.acknowledged))


def _version(path: Path) -> tuple[int, int] | None:
    """Another one after every change of the file. Raises OSError."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _held_too_long(descriptor: int, what: str) -> SessionBusy:
    pid = _owner(descriptor)
    who = "another process" if pid is None else f"process {pid}"
    if pid is not None and _is_stopped(pid):
        who += ", which is stopped,"
    done = f"{who} has been at work on it for more than {LOCK_SECONDS:g} s; nothing was written"
    return SessionBusy(
        f"{what} is busy: {done}: continue or end that process, then try again", holder=who.rstrip(",")
    )


def _owner(descriptor: int) -> int | None:
    """The process that took the lock, as this machine's kernel lists it; None when it does not say."""
    status = os.fstat(descriptor)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError, ValueError):
        for line in _LOCKS.read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5] == file and int(words[4]) > 0:
                return int(words[4])
    return None


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False
