"""Reading a journal as it grows: each row once, however the files change.

What was read last is kept as a position, and the bytes behind it are compared with the checksum of the next one.
Nothing is queued.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from types import TracebackType

from segue.errors import CorruptJournal, SessionNotFound
from segue.events.envelope import Envelope
from segue.stores.admission import no_session
from segue.stores.git import acknowledged
from segue.stores.git.acknowledged import Position
from segue.stores.git.faults import naming
from segue.stores.git.segments import Segment, decoded, pread_all, read_batches
from segue.stores.git.session import GitSession


class Follower:
    """Bound to one session's folder, which it keeps open: another one under the same name is another session.

    Methods raise CorruptJournal, SessionNotFound, StorageError.
    """

    def __init__(self, session: GitSession, after_seq: int) -> None:
        self._session, self._paths = session, session.paths
        self._seq = after_seq
        self._at: Position | None = None
        """Where reading ended; None before anything was read."""
        with naming(self._paths.folder, "open"):
            try:
                self._folder = os.open(self._paths.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                raise no_session(self._paths.session_id) from None

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._folder)

    def batches(self) -> Iterator[list[Envelope]]:
        """The rows that became visible since the last time, some at a time."""
        with naming(self._paths.history, "read"):
            try:
                yield from self._batches()
            except (OSError, CorruptJournal):
                self._require_same()
                raise

    def check(self) -> None:
        """What a crash left behind is published, and a session that is gone is noticed."""
        with naming(self._paths.history, "read"):
            self._require_same()
            self._session.position()

    def _batches(self) -> Iterator[list[Envelope]]:
        until = self._position()
        if self._at is not None and until.seq < self._at.seq:
            cut = f"the journal ends at row {until.seq}, though row {self._at.seq} was there: it was repaired"
            raise CorruptJournal(f"{cut}; watch it anew", path=str(self._paths.history))
        if until.seq > self._seq:
            for rows in self._appended(until) or read_batches(self._paths, until, self._seq):
                self._seq = rows[-1].seq
                yield rows
        self._at = until

    def _appended(self, until: Position) -> Iterator[list[Envelope]] | None:
        """What follows the position where reading ended; None when these are not the same bytes, or another file."""
        at = self._at
        if at is None or at.segment != until.segment or at.seq != self._seq:
            return None
        path = self._paths.segment(until.segment)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            data = pread_all(descriptor, until.length - at.length, at.length)
        finally:
            os.close(descriptor)
        if zlib.crc32(data, at.crc) != until.crc or data.count(b"\n") != until.seq - at.seq:
            return None
        segment = Segment(path, until.segment, until.seq, until.length, until.crc)
        return decoded(segment, at.seq + 1, data, self._paths.session_id)

    def _position(self) -> Position:
        if self._at is None:
            return self._session.position()
        position = None
        try:
            descriptor = os.open(acknowledged.NAME, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._folder)
        except FileNotFoundError:
            pass
        else:
            try:
                position = acknowledged.read(descriptor, self._at)
            finally:
                os.close(descriptor)
        if position is None:
            self._require_same()
            position = self._session.position()
        return position

    def _require_same(self) -> None:
        try:
            there = os.stat(self._paths.folder, follow_symlinks=False)
        except FileNotFoundError:
            raise no_session(self._paths.session_id) from None
        if not os.path.samestat(there, os.fstat(self._folder)):
            session_id = self._paths.session_id
            raise SessionNotFound(f"session {session_id!r} was deleted, and another one was made since")
