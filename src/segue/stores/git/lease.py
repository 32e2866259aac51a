"""The turn lease: an flock on `lock/turn`, whose content says who has it, and the epoch.

Content changes only under the append lock, so an append that found its lease current cannot be overtaken. The
kernel frees a dead holder's lock at once; a living one keeps it, even when stopped. A forked child closes its
copies of the descriptors at once and never unlocks: the lock belongs to the open file, so unlocking there
would take it from the parent.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time

import msgspec

from segue.errors import SessionBusy
from segue.ids import utc_now
from segue.stores.git.forks import open_lock
from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import append_lock, is_current, opened, try_lock, unlock
from segue.stores.protocol import Lease

SIZE = 1024
"""Bytes of the content, padded with spaces: overwritten in place by one write."""
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
    """The lease and the descriptor that holds it.

    Raises `SessionBusy` when it is taken, `SessionNotFound`, OSError.
    """
    descriptor = opened(paths, paths.turn_lock)
    try:
        while _lock(paths, descriptor) and not is_current(descriptor, paths.turn_lock):
            unlock(
                descriptor
            )  # the session was deleted meanwhile, or only this file: then its holder is fenced
            descriptor = opened(paths, paths.turn_lock)
        with append_lock(paths):
            note = Note(
                epoch=note_in(descriptor).epoch + 1,
                token=secrets.token_hex(16),
                holder=holder.encode("utf-8", "replace").decode()[:160],
                pid=os.getpid(),
                host=socket.gethostname()[:64],
                since=utc_now(),
            )
            _write_note(descriptor, note)
    except BaseException:
        unlock(descriptor)
        raise
    return Lease(paths.session_id, note.epoch, note.token), descriptor


def give_back(paths: SessionPaths, lease: Lease, descriptor: int) -> None:
    """Make the lease stale, then free the lock.

    Raises `SessionBusy`, `SessionNotFound`, OSError, but frees the lock even then.
    """
    try:
        with append_lock(paths):
            if note_in(descriptor).token == lease.token:
                _write_note(descriptor, Note(epoch=lease.epoch))
    finally:
        unlock(descriptor)


def current_holder(paths: SessionPaths) -> str | None:
    """Who has the lease, or None. Raises OSError."""
    try:
        descriptor = open_lock(paths.turn_lock, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if try_lock(descriptor, fcntl.LOCK_SH) else read_note(paths).describe()
    finally:
        unlock(descriptor)


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


def _lock(paths: SessionPaths, descriptor: int) -> bool:
    """True. Raises `SessionBusy` naming the holder, OSError."""
    for pause in (*_PROBES, 0.0):
        if try_lock(descriptor):
            return True
        time.sleep(pause)
    who = read_note(paths).describe()
    raise SessionBusy(f"session {paths.session_id} is busy: {who} has its turn", holder=who)


def _write_note(descriptor: int, note: Note) -> None:
    text = msgspec.json.encode(note)
    os.pwrite(descriptor, text.ljust(SIZE - 1) + b"\n", 0)
