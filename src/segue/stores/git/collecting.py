"""Keeping people's `git gc` away while a commit is made, and waiting for one that is at work.

A collector removes objects that no branch names yet, which those of a commit are until its end. Git lets only one
collector into a repository at a time: `.git/gc.pid` says who it is. A commit says that it is the one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

WAIT_SECONDS = 3.0
"""How long a collector is waited for. Then the commit is made beside it, and made again when it lost objects."""
OLD_SECONDS = 12 * 3600.0
"""What is older was left behind, git says."""
_PAUSE = 0.02


@contextlib.contextmanager
def no_collector(git: Path) -> Iterator[None]:
    """The caller holds the commit lock. Raises OSError."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (held := _take(git)) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        if held:
            (git / "gc.pid").unlink(missing_ok=True)


def _take(git: Path) -> bool:
    """As git does: look and write under `gc.pid.lock`, which becomes `gc.pid`."""
    lock = git / "gc.pid.lock"
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        if _is_left(lock):
            lock.unlink(missing_ok=True)
        return False
    try:
        os.write(descriptor, f"{os.getpid()} {socket.gethostname()}".encode())
    finally:
        os.close(descriptor)
    if _is_at_work(git / "gc.pid"):
        lock.unlink()
        return False
    os.replace(lock, git / "gc.pid")
    return True


def _is_left(lock: Path) -> bool:
    """Whether the process that wrote the lock file is dead. One that wrote nothing yet may live."""
    with contextlib.suppress(FileNotFoundError):
        return lock.stat().st_size > 0 and not _is_at_work(lock)
    return False


def _is_at_work(path: Path) -> bool:
    try:
        pid, _, host = path.read_text("utf-8", "replace").partition(" ")
        is_old = time.time() - path.stat().st_mtime > OLD_SECONDS
    except FileNotFoundError:
        return False
    if is_old or not pid.isdigit() or int(pid) == os.getpid():
        return False
    return host.strip() != socket.gethostname() or _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
