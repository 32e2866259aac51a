"""Change marks: `<root>/.dirty/<folder>` says that the session may have changed since the index looked.

A mark is made, durably, before the first row after it was taken away; both happen under the session's append lock or,
where there is no session to lock, under the lock on `.dirty` itself. A mark that is still empty may not be durable:
whoever made it died on the way, so the next one finishes it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from segue.stores.git.faults import naming
from segue.stores.git.forks import open_lock
from segue.stores.git.locks import lock, unlock
from segue.stores.ids import id_of

FOLDER = ".dirty"
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


def make(mark: Path) -> None:
    """Durable when it returns; one look at the file system when it is there. Raises `StorageError`."""
    try:
        if os.stat(mark).st_size:
            return
    except OSError:
        pass  # making it says what is wrong
    with naming(mark, "write"):
        _make(mark)


def remove_unless(mark: Path, exists: Callable[[], bool]) -> bool:
    """Take the mark away if its session does not exist, and cannot come to be meanwhile. Raises OSError."""
    with locked(mark.parent):
        if exists():
            return False
        mark.unlink(missing_ok=True)
        return True


def marked(folder: Path) -> list[str]:
    """Ids of the sessions with a mark in this folder, sorted. Raises OSError."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(session_id for name in names if (session_id := id_of(name)) is not None)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on the folder of marks, which is made when it is missing. Raises `SessionBusy`, OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = open_lock(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        lock(descriptor, str(folder.parent), lambda: os.fstat(descriptor).st_mtime_ns)
        yield
    finally:
        unlock(descriptor)


def _make(mark: Path) -> None:
    mark.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        for folder in (mark.parent, mark.parent.parent):
            _sync(folder)
        os.write(descriptor, b"\n")
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
