"""One session in this process: its appends, its position, its readers' wake-up."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from segue.errors import SegueError
from segue.events.codec import lines_bytes
from segue.stores.admission import check_drafts, check_epoch, check_seq, no_session
from segue.stores.git import acknowledged, marks
from segue.stores.git.acknowledged import Position
from segue.stores.git.bell import Bell
from segue.stores.git.faults import naming
from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import locked_file_if_free
from segue.stores.git.tail import SEGMENT_BYTES, Replaced, Tail
from segue.stores.git.writer import Request
from segue.stores.protocol import Draft

Outcome = list[int] | SegueError


class GitSession:
    """`append` is called by one thread at a time; everything else by any."""

    def __init__(self, paths: SessionPaths, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.paths = paths
        self.segment_bytes = segment_bytes
        self.bell = Bell()
        """Rings when rows were published here, or the kernel says that they were elsewhere."""
        self.closed = False
        """Whether its store was closed: nobody watches any more."""
        self.reports: list[str] = []
        self.recent_objects: dict[str, bytes] = {}
        """Trees and commit of the last commit made here: the committer's."""
        self._tail: Tail | None = None
        self._refused: Position | None = None
        """The last tail's, for the next one."""
        self._busy = threading.Lock()
        """Held while the tail is used: by an append, a first look, or closing."""

    def append(self, requests: list[Request]) -> None:
        """Write what is admitted with one write and one sync, then resolve all futures.

        Raises `StorageError`.
        """
        with self._busy, naming(self.paths.history, "append to"):
            try:
                outcomes = self._append(requests)
            except Replaced:
                self._close()
                outcomes = self._append(requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, SegueError):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)
        self.bell.ring()

    def position(self) -> Position:
        """How far readers may read. Heals what a crash left behind. Raises OSError, CorruptJournal."""
        position = self._acknowledged()
        if position is not None and (self._tail is not None or self._is_complete(position)):
            return position
        return self._look(position)

    def unmark(self, seq: int) -> bool:
        """Take the change mark away, unless `seq` is not the last row. Raises OSError, `SessionNotFound`."""
        with locked_file_if_free(self.paths, self.paths.append_lock) as free:
            if not free:
                return False
            position = self._acknowledged()
            if position is None or position.seq != seq or not self._is_complete(position):
                return False
            self.paths.mark.unlink(missing_ok=True)
            return True

    def close(self) -> None:
        """Its store is closed: whoever watches stops."""
        self.closed = True
        self.bell.ring()

    def close_if_idle(self) -> None:
        """Give the descriptors back; they are opened again when needed."""
        if self._busy.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._busy.release()

    def forget_after_fork(self) -> None:
        """In a forked child: close what was inherited, unlock nothing, begin anew."""
        self.bell = Bell()
        self._busy = threading.Lock()
        self._close()

    def _append(self, requests: list[Request]) -> list[Outcome]:
        tail = self._opened()
        try:
            with tail.locked() as position:
                outcomes, data, last_seq = self._admit(tail, requests, position.seq)
                if data:
                    marks.make(self.paths.mark)
                    tail.write(data, last_seq)
            return outcomes
        finally:
            self._collect_reports(tail)

    def _admit(self, tail: Tail, requests: list[Request], last_seq: int) -> tuple[list[Outcome], bytes, int]:
        outcomes: list[Outcome] = []
        data = bytearray()
        note = tail.lease_note() if any(request.lease for request in requests) else None
        for request in requests:
            try:
                check_drafts(self.paths.session_id, request.drafts, request.lease)
                if request.lease is not None and note is not None:
                    check_epoch(request.lease, note.epoch, note.token)
                check_seq(self.paths.session_id, last_seq, request.expected_seq)
                data += framed(self.paths.session_id, last_seq + 1, request.drafts)
            except SegueError as refusal:
                outcomes.append(refusal)
            else:
                outcomes.append(list(range(last_seq + 1, last_seq + 1 + len(request.drafts))))
                last_seq += len(request.drafts)
        return outcomes, bytes(data), last_seq

    def _acknowledged(self) -> Position | None:
        try:
            descriptor = os.open(self.paths.acknowledged, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            if not self.paths.exists():
                raise no_session(self.paths.session_id) from None
            return None
        try:
            return acknowledged.read(descriptor)
        finally:
            os.close(descriptor)

    def _is_complete(self, position: Position) -> bool:
        """Whether nothing is behind the position: two looks at the file system, no lock."""
        try:
            size = os.stat(self.paths.segment(position.segment)).st_size if position.segment else 0
        except FileNotFoundError:
            return False
        return size == position.length and not self.paths.segment(position.seq + 1).exists()

    def _look(self, position: Position | None) -> Position:
        """Rows are behind the position: somebody is appending right now, or crashed while appending.

        Readers do not wait for whoever appends, here or elsewhere, unless nothing says how far they may read.
        """
        if not self._busy.acquire(blocking=position is None):
            assert position is not None
            return position
        kept = self._tail is not None
        try:
            found = self._being_appended(position) or self._healed(position)
        except Replaced:
            found = None
        except OSError as error:
            if position is None or error.errno not in marks.READ_ONLY:
                raise
            found = position  # we may only read: what is acknowledged is enough
        finally:
            if not kept:  # readers of thousands of sessions keep no files open
                self._close()
            self._busy.release()
        return found or self.position()

    def _being_appended(self, position: Position | None) -> Position | None:
        """How far to read when somebody is appending, or was a moment ago: None after a crash."""
        if position is None:
            return None
        with locked_file_if_free(self.paths, self.paths.append_lock) as free:
            if not free:
                return position
            position = self._acknowledged()
            return position if position is not None and self._is_complete(position) else None

    def _healed(self, position: Position | None) -> Position | None:
        tail = self._opened()
        try:
            with tail.locked() if position is None else tail.locked_if_free() as current:
                return current or position
        finally:
            self._collect_reports(tail)

    def _opened(self) -> Tail:
        if self._tail is None:
            if not self.paths.exists():
                raise no_session(self.paths.session_id)
            self._tail = Tail(self.paths, self.segment_bytes, self._refused)
        return self._tail

    def _close(self) -> None:
        if self._tail is not None:
            self._refused = self._tail.refused
            self._tail.close()
            self._tail = None

    def _collect_reports(self, tail: Tail) -> None:
        self.reports += tail.reports
        tail.reports.clear()


def framed(session_id: str, first_seq: int, drafts: Sequence[Draft]) -> bytes:
    """The lines of one append: a tab at the end of a line says that it continues one, a space that it goes on."""
    data = lines_bytes(session_id, first_seq, drafts)
    if len(drafts) < 2:
        return data
    first, *others = data.split(b"\n")[:-1]
    return first + b"".join([b" \n" + line + b"\t" for line in others]) + b"\n"
