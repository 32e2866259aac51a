"""What a crash left behind the acknowledged position: complete appends are published, a torn one is dropped
whole.

Complete appends may have been acknowledged before a power loss that lost the small file. Torn bytes go to
`torn/`, for people. Damage *before* the position, or, when no position is known, before another append, is
refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import zlib
from pathlib import Path

from segue.stores.git.acknowledged import START, Position
from segue.stores.git.layout import SessionPaths, sync_directory, write_all
from segue.stores.git.segments import Segment, corrupt, pread_all, read_sealed, row_problem, seal, verified

log = logging.getLogger("segue.stores.git")


class Healing:
    """One pass over what is behind a position. The caller holds the append lock."""

    def __init__(self, paths: SessionPaths, known: Position | None, *, fenced: bool = False) -> None:
        self.paths = paths
        self.fenced = fenced
        """Whether what is behind the position was refused: then it is dropped, complete or not."""
        self.trusted = known is not None
        self.position = known or START
        self.reports: list[str] = []

    def run(self) -> Position:
        """The position after healing; everything up to it is durable. Raises CorruptJournal, OSError."""
        segments = self.paths.segments()
        known = self.position.segment
        if known and known not in segments:
            raise corrupt(self.paths.segment(known), 1, 0, "the acknowledged segment is missing")
        later = [first for first in segments if first >= known]
        for first in later:
            self._segment(first, is_last=self.fenced or first == later[-1])
        return self.position

    def _segment(self, first: int, *, is_last: bool) -> None:
        path = self.paths.segment(first)
        if first != self.position.segment and first != self.position.seq + 1:
            raise corrupt(path, 1, 0, f"row {self.position.seq + 1} should come next")
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            self._extend(descriptor, path, first, is_last=is_last)
        finally:
            os.close(descriptor)
        if self.position.segment != first:  # not one complete append in it
            os.unlink(path)
            sync_directory(self.paths.history)

    def _extend(self, descriptor: int, path: Path, first: int, *, is_last: bool) -> None:
        data = pread_all(descriptor, os.fstat(descriptor).st_size, 0)
        start = self._verified_length(path, data, first)
        end, last_seq, bad = complete_appends(data, start, self.position.seq)
        if self.fenced:
            end, last_seq, bad = start, self.position.seq, len(data)
        if end < len(data):
            line = data.count(b"\n", 0, bad) + 1
            if not is_last or (not self.trusted and append_after(data, bad)):
                raise corrupt(path, line, bad, "damage before other rows")
            self._drop(descriptor, path, data, end)
        if end > start:
            os.fdatasync(descriptor)
            sync_directory(self.paths.history)
            self._move(Position(first, end, last_seq, zlib.crc32(data[:end])))

    def _verified_length(self, path: Path, data: bytes, first: int) -> int:
        position = self.position
        if first != position.segment:
            return 0
        verified(Segment(path, first, position.seq, position.length, position.crc), data[: position.length])
        return position.length

    def _move(self, position: Position) -> None:
        old, self.position = self.position, position
        if old.segment not in (0, position.segment) and old.segment not in read_sealed(self.paths):
            seal(self.paths, old)

    def _drop(self, descriptor: int, path: Path, data: bytes, end: int) -> None:
        kept = self._keep(path, data[end:], end)
        os.ftruncate(descriptor, end)
        os.fdatasync(descriptor)
        what = "a failed append" if self.fenced else "a torn append"
        report = f"{path}: dropped {what} of {len(data) - end} bytes at byte {end} ({kept})"
        self.reports.append(report)
        log.warning(report)

    def _keep(self, path: Path, torn: bytes, offset: int) -> str:
        target = self.paths.torn / f"{path.stem}-{offset}-{zlib.crc32(torn):08x}"
        with contextlib.suppress(OSError):
            self.paths.torn.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                write_all(descriptor, torn)
            finally:
                os.close(descriptor)
            return f"kept as {target.relative_to(self.paths.folder)}"
        return "it could not be kept"


def complete_appends(data: bytes, start: int, seq: int) -> tuple[int, int, int]:
    """Walk the lines from byte `start`, where row `seq + 1` should be.

    Returns the end of the last complete append, the seq of its last row, and where the first line is that is
    no row, the end of the data when there is none.
    """
    end, last_seq, offset = start, seq, start
    while (newline := data.find(b"\n", offset)) >= 0:
        line = data[offset:newline]
        if row_problem(line, seq + 1) is not None:
            break
        seq, offset = seq + 1, newline + 1
        if not line.endswith(b" "):
            end, last_seq = offset, seq
    return end, last_seq, offset


def append_after(data: bytes, offset: int) -> bool:
    """Whether another append begins after the bad line at `offset`: it did not before that line was durable.

    Rows that continue an append may be of the torn one, as a disk writes its sectors in any order.
    """
    lines = data[offset:].split(b"\n")[1:-1]
    return any(not line.rstrip(b" ").endswith(b"\t") and _is_row(line) for line in lines)


def _is_row(line: bytes) -> bool:
    problem = row_problem(line, 0)
    return problem is not None and problem.startswith("row ")
