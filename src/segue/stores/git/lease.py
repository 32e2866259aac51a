"""The turn lease: an flock on `lock/turn`, whose content says who has it, and the epoch.

Content changes only under the append lock, so an append that found its lease current cannot be overtaken. The
kernel frees a dead holder's lock at once; a living one keeps it, even when stopped. A forked child closes its
copies of the descriptors at once and never unlocks: the lock belongs to the open file, so unlocking there
would take it from the parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.errors import SessionBusy
from segue.ids import utc_now
from segue.stores.git.layout import SessionPaths
from segue.stores.protocol import Lease

SIZE = 1024
"""Bytes of the content, padded with spaces: overwritten in place by one write."""
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
_PROBES = (0.0005, 0.001, 0.002, 0.004)
"""Seconds between tries before a lock counts as taken: `holder()` of somebody else has it for a moment."""


class Note(msgspec.Struct, frozen=True):
    """What `lock/turn` says."""

    epoch: int = 0
    token: str = ""
    """Empty when the lease was released."""
    holder: str = ""
    pid: int = 0
    host: str = ""
    since: str = ""

    def describe(self) -> str:
        return (
            f"{self.holder} (process {self.pid} on {self.host}, since {self.since})"
            if self.token
            else "somebody"
        )


_decode_note = msgspec.json.Decoder(Note).decode


def take(paths: SessionPaths, holder: str) -> tuple[Lease, int]:
    """The lease and the descriptor that holds it. Raises `SessionBusy` when it is taken, OSError."""
    descriptor = os.open(paths.turn_lock, _OPEN, 0o600)
    try:
        if not _try_lock(descriptor):
            note = read_note(paths)
            raise SessionBusy(
                f"session {paths.session_id} is busy: {note.describe()}", holder=note.describe()
            )
        with append_lock(paths):
            note = Note(
                epoch=read_note(paths).epoch + 1,
                token=secrets.token_hex(16),
                holder=holder.encode("utf-8", "replace").decode()[:160],
                pid=os.getpid(),
                host=socket.gethostname()[:64],
                since=utc_now(),
            )
            _write_note(descriptor, note)
    except BaseException:
        os.close(descriptor)
        raise
    return Lease(paths.session_id, note.epoch, note.token), descriptor


def give_back(paths: SessionPaths, lease: Lease, descriptor: int) -> None:
    """Make the lease stale, then free the lock. Raises OSError, but frees the lock even then."""
    try:
        with append_lock(paths):
            if read_note(paths).token == lease.token:
                _write_note(descriptor, Note(epoch=lease.epoch))
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def current_holder(paths: SessionPaths) -> str | None:
    """Who has the lease, or None. Raises OSError."""
    try:
        descriptor = os.open(paths.turn_lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return read_note(paths).describe()
    finally:
        os.close(descriptor)


def read_note(paths: SessionPaths) -> Note:
    """The content now; an empty one when there is none, or it is damaged. Raises OSError."""
    try:
        descriptor = os.open(paths.turn_lock, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return Note()
    try:
        return note_in(descriptor)
    finally:
        os.close(descriptor)


def note_in(descriptor: int) -> Note:
    """The content of an open `lock/turn` now. Raises OSError."""
    for _ in range(10):  # it may be read while it is written
        data = os.pread(descriptor, SIZE, 0)
        if not data:
            return Note()
        try:
            return _decode_note(data)
        except msgspec.DecodeError:
            time.sleep(0.0005)
    return Note()


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[int]:
    """Hold the flock of a file, through a descriptor of our own, which it gives. Raises OSError."""
    descriptor = os.open(path, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def append_lock(paths: SessionPaths) -> contextlib.AbstractContextManager[int]:
    return locked_file(paths.append_lock)


def _try_lock(descriptor: int) -> bool:
    for pause in (*_PROBES, 0.0):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(pause)
    return False


def _write_note(descriptor: int, note: Note) -> None:
    text = msgspec.json.encode(note)
    os.pwrite(descriptor, text.ljust(SIZE - 1) + b"\n", 0)
