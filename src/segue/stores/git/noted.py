"""What is noted beside the journal's segments: how far it is acknowledged, their checksums, and which files belong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from segue.stores.git import acknowledged
from segue.stores.git.acknowledged import Position
from segue.stores.git.layout import SessionPaths
from segue.stores.git.lines import row_seq
from segue.stores.git.problems import Problem
from segue.stores.git.segments import read_sealed


class Noted:
    """Read once. Raises OSError."""

    def __init__(self, paths: SessionPaths, committed_seq: int) -> None:
        self.paths = paths
        self.problems: list[Problem] = []
        self.position, fence = read_position(paths)
        if self.position is None:
            self._note_position()
            self.position = fence
        self.fenced = fence is not None and fence == self.position
        """Whether what lies behind the position was refused."""
        self.sealed = read_sealed(
            paths
        )  # after the position: a writer may go on to the next segment meanwhile
        self.files: list[int] = []
        """First seqs of the segments that belong to the journal."""
        self._listed = paths.segments()
        """Those that begin later are of somebody who writes meanwhile."""
        for first in self._listed:
            if self._is_boundary(first):
                self.files.append(first)
        self._note_checksums()
        known = self.position.seq if self.position is not None else 0
        self.certain = max(known, committed_seq, *self._begun())
        """Rows up to this one exist, or are lost."""

    def expected(self, first: int) -> tuple[int, int] | None:
        """Length and checksum that are noted for the segment that begins there."""
        if self.position is not None and self.position.segment == first:
            return self.position.length, self.position.crc
        return self.sealed.get(first)

    def is_open(self, first: int) -> bool:
        """Whether the position is in this segment."""
        return self.position is not None and self.position.segment == first

    def limit(self, first: int) -> int | None:
        """The last seq that a segment can have because the next one begins behind it, None for the last one."""
        return min((other - 1 for other in self.files if other > first), default=None)

    def strays(self, used: set[int], following: int) -> Iterator[Problem]:
        """Segment files beside the `used` ones: they hold nothing of the journal, which ends before `following`."""
        for first in self._listed:
            path = self.paths.segment(first)
            if first in used:
                continue
            if first == following:
                yield Problem(
                    kind="torn_append",
                    path=str(path),
                    detail="a segment without one complete append",
                    repair="the next open removes it",
                    note=True,
                )
            else:
                yield Problem(
                    kind="segment_stray",
                    path=str(path),
                    detail="no row of the journal belongs here",
                    repair="taken out of the way",
                )

    def _note_position(self) -> None:
        found = "damaged" if self.paths.acknowledged.exists() else "missing"
        self.problems.append(
            Problem(
                kind="position_damaged",
                path=str(self.paths.acknowledged),
                detail=f"how far the journal is acknowledged is {found}",
                repair="found again from the rows, as the next open would",
                note=True,
            )
        )

    def _is_boundary(self, first: int) -> bool:
        """Whether a segment may begin here: noted so, or its first row says so."""
        if self.fenced and self.position is not None and first > self.position.segment:
            return False
        if first == 1 or first in self.sealed or self.is_open(first):
            return True
        return self._first_row(first) == first and not self._overlaps(first)

    def _overlaps(self, first: int) -> bool:
        """Whether the segment before has the row too with which this file begins: then the file was put there."""
        before = self.paths.segment(self.files[-1]) if self.files else None
        if before is None or before.is_symlink():
            return False
        with open(before, "rb") as file:
            return any(row_seq(line.removesuffix(b"\n"), self.paths.session_id) == first for line in file)

    def _note_checksums(self) -> None:
        full = [first for first in self.files if not self.is_open(first)]
        if self.position is None or self.position.segment not in self.files:
            full = full[:-1]
        missing = [first for first in full if first not in self.sealed and first < self.files[-1]]
        if missing:
            self.problems.append(
                Problem(
                    kind="checksum_missing",
                    path=str(self.paths.sealed),
                    detail=f"{len(missing)} full segments have no checksum in it",
                    repair="computed anew",
                    note=True,
                )
            )

    def _begun(self) -> Iterator[int]:
        """For each segment that has a row: there were rows up to it."""
        yield 0
        for first in self.files:
            if first in self.sealed or self._first_row(first) == first:
                yield first - 1

    def _first_row(self, first: int) -> int | None:
        path: Path = self.paths.segment(first)
        if path.is_symlink():
            return None
        with open(path, "rb") as file:
            return row_seq(file.readline().removesuffix(b"\n"), self.paths.session_id)


def read_position(paths: SessionPaths) -> tuple[Position | None, Position | None]:
    """The position and the fence, None for what is not known. Raises OSError."""
    try:
        descriptor = os.open(paths.acknowledged, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None, None
    try:
        return acknowledged.read(descriptor), acknowledged.read_fence(descriptor)
    finally:
        os.close(descriptor)
