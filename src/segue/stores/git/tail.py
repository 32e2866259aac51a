"""The writing end of one journal in this process: lock, check, write, sync, publish."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segue.stores.git import acknowledged, prepared
from segue.stores.git.acknowledged import Position
from segue.stores.git.forks import close_lock
from segue.stores.git.healing import Healing
from segue.stores.git.identity import heal_meta
from segue.stores.git.layout import SessionPaths, sync_directory, write_all
from segue.stores.git.lease import Note, note_in
from segue.stores.git.locks import lock, opened, try_lock
from segue.stores.git.segments import corrupt, seal

SEGMENT_BYTES = 4 << 20
"""A segment that is this long gets no more appends."""
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW


class Replaced(Exception):
    """The files this tail has open are not the session's any more: it was deleted, perhaps made again."""


class Tail:
    """Not thread-safe: its session's writer is the only user.

    Methods raise OSError unless they say otherwise.
    """

    def __init__(
        self, paths: SessionPaths, segment_bytes: int = SEGMENT_BYTES, refused: Position | None = None
    ) -> None:
        self.paths = paths
        self.segment_bytes = segment_bytes
        self.reports: list[str] = []
        self.position: Position | None = None
        self.refused = refused
        """Where a failed append begins that could not be cut off. Nothing is written before it is."""
        self._segment = -1
        self._acknowledged = self._turn = self._lock = -1
        try:
            self._lock = opened(paths, paths.append_lock)
            self._turn = os.open(paths.turn_lock, _OPEN, 0o600)
            self._acknowledged = os.open(paths.acknowledged, _OPEN, 0o600)
            self._lock_file, self._turn_file = _identity(self._lock), _identity(self._turn)
        except OSError:
            self.close()
            raise

    @contextmanager
    def locked(self) -> Iterator[Position]:
        """Hold the append lock; gives the position that this append starts from.

        Raises CorruptJournal, Replaced, `SessionBusy`.
        """
        lock(self._lock, f"session {self.paths.session_id}", self._sign)
        try:
            yield self._current()
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    @contextmanager
    def locked_if_free(self) -> Iterator[Position | None]:
        """Like `locked`, but gives None when somebody is appending right now."""
        if not try_lock(self._lock):
            yield None
            return
        try:
            yield self._current()
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def write(self, data: bytes, last_seq: int) -> None:
        """Append framed rows, durably, and publish them; the append lock is held. All or nothing."""
        assert self.position is not None
        before = self.position
        try:
            position = self._room(before)
            write_all(self._segment, data)
            os.fdatasync(self._segment)
            after = Position(
                position.segment, position.length + len(data), last_seq, zlib.crc32(data, position.crc)
            )
            acknowledged.publish(self._acknowledged, after)
            self.position = after
        except BaseException:
            self._undo(before)
            raise

    def lease_note(self) -> Note:
        """Who has the turn lease; it cannot change while the append lock is held.

        Raises Replaced when the file of the lease was taken away: then whoever had it may not be the only one.
        """
        _require(self.paths.turn_lock, self._turn_file)
        return note_in(self._turn)

    def close(self) -> None:
        """Close all descriptors. Never unlocks: in a forked child the lock belongs to the parent."""
        for descriptor in (self._segment, self._acknowledged, self._turn):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        close_lock(self._lock)
        self._segment = self._acknowledged = self._turn = self._lock = -1

    def _sign(self) -> bytes:
        """Changes with every append, by whomever."""
        return os.pread(self._acknowledged, acknowledged.SIZE, 0)

    def _current(self) -> Position:
        _require(self.paths.append_lock, self._lock_file)  # or others lock another file now
        if self.refused is not None:
            self._cut_refused(self.refused)
        position = acknowledged.read(self._acknowledged, self.position)
        if position is None or self.position is None:
            self._check_not_replaced()
            return self._heal(position)
        if position.segment != self.position.segment:
            self._open_segment(position.segment)
        self.position = position
        if self._segment >= 0:
            status = os.fstat(self._segment)
            if status.st_nlink == 0:
                raise Replaced
            if status.st_size != position.length:
                return self._heal(position)
        elif os.fstat(self._acknowledged).st_nlink == 0:
            raise Replaced
        if self._is_full(position) and self.paths.segment(position.seq + 1).exists():
            return self._heal(position)  # another process died there, perhaps with all its rows written
        return position

    def _is_full(self, position: Position) -> bool:
        """Whether the next rows begin a new segment."""
        return not position.segment or position.length >= self.segment_bytes

    def _check_not_replaced(self) -> None:
        try:
            there = os.stat(self.paths.acknowledged).st_ino
        except FileNotFoundError:
            raise Replaced from None
        if there != os.fstat(self._acknowledged).st_ino:
            raise Replaced

    def _heal(self, known: Position | None) -> Position:
        finished = prepared.finish(self.paths, self._acknowledged)
        if finished:
            known = acknowledged.read(self._acknowledged)
        self.reports += [report for report in (finished, heal_meta(self.paths)) if report]
        fence = acknowledged.read_fence(self._acknowledged)
        known = known or fence
        healing = Healing(self.paths, known, fenced=fence is not None and fence == known)
        position = healing.run()
        self.reports += healing.reports
        self._open_segment(position.segment)
        if position != known:
            acknowledged.publish(self._acknowledged, position)
        if fence is not None:
            acknowledged.set_fence(self._acknowledged, None)
        self.position = position
        return position

    def _open_segment(self, first: int) -> None:
        if self._segment >= 0:
            os.close(self._segment)
            self._segment = -1
        if first:
            path = self.paths.segment(first)
            try:
                self._segment = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
            except FileNotFoundError as error:
                if not self.paths.exists():
                    raise Replaced from error
                raise corrupt(path, 1, 0, "the acknowledged segment is missing") from error

    def _room(self, position: Position) -> Position:
        """The position in the segment that takes the next rows: this one, or a new one when it is full."""
        if not self._is_full(position):
            return position
        first = position.seq + 1
        descriptor = self._new_segment(first)
        if self._segment >= 0:
            os.close(self._segment)
        self._segment = descriptor
        sync_directory(self.paths.history)
        if position.segment:
            seal(self.paths, position)
        return Position(first, 0, position.seq, 0)

    def _new_segment(self, first: int) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.open(self.paths.segment(first), flags, 0o600)

    def _undo(self, before: Position) -> None:
        """Nothing of a failed write may stay: cut it off, and read everything anew before the next one.

        What cannot be cut off is fenced, for other processes and later ones, and refused here until it is gone.
        """
        self.position = None
        try:
            self._cut(before)
            if acknowledged.read(self._acknowledged) != before:  # publishing it is what failed
                acknowledged.publish(self._acknowledged, before)
        except OSError:
            self.refused = before
            with suppress(OSError):
                acknowledged.set_fence(self._acknowledged, before)

    def _cut(self, before: Position) -> None:
        started = self.paths.segment(before.seq + 1)
        if started.exists():  # a new segment, if it came to that
            started.unlink()
            sync_directory(self.paths.history)
        if before.segment:
            path = self.paths.segment(before.segment)
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                os.ftruncate(descriptor, before.length)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def _cut_refused(self, refused: Position) -> None:
        """Unless another process has done it, and perhaps gone on."""
        if acknowledged.read(self._acknowledged) in (None, refused):
            self._cut(refused)
            if acknowledged.read_fence(self._acknowledged) is not None:
                acknowledged.set_fence(self._acknowledged, None)
        self.refused = None


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_ino, status.st_dev


def _require(path: Path, identity: tuple[int, int]) -> None:
    """Raises Replaced unless that file is there."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        raise Replaced from None
    if (status.st_ino, status.st_dev) != identity:
        raise Replaced
