"""The journal as it should be, piece by piece, from what the segments and the commits still have.

`verify` asks it what is wrong, `repair` writes what it gives. It reads one segment at a time.

A segment whose bytes have the checksum that was noted for it is believed. In any other, each line is a row of its
place or is not, and where the commits have the row, they decide. A row that only a segment with a wrong checksum has
is kept, but cannot be proven.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.stores.git.committed import Committed
from segue.stores.git.healing import append_after, complete_appends
from segue.stores.git.layout import SessionPaths
from segue.stores.git.lines import Line, Lines, row_seq, what_is_wrong
from segue.stores.git.noted import Noted
from segue.stores.git.problems import Kind, Problem, seqs

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""
MOST_ROWS = 10_000
"""Rows of one piece whose segment is missing."""
RESTORED = "restored from the commits"
LOST = "nobody has them any more: each becomes a ROW_LOST row"


class Piece(msgspec.Struct):
    """One segment as it should be."""

    first: int
    lines: list[bytes | None]
    """Its rows, framing included, without their line feeds; None for a row that nobody has any more."""
    changed: bool = False
    """Whether the file has to be written anew."""

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


class Survey:
    """One pass. `problems` is complete when `pieces` is exhausted."""

    def __init__(
        self, paths: SessionPaths, committed: Committed, progress: Progress = lambda size: None
    ) -> None:
        self.paths = paths
        self.history_differs = False
        """Whether the commits have other rows than segments whose checksum is right."""
        self._committed, self._progress = committed, progress
        self._noted = Noted(paths, committed.seq)
        self.position = self._noted.position
        self.problems: list[Problem] = self._noted.problems

    def pieces(self) -> Iterator[Piece]:
        """Raises OSError: what cannot be read now is no reason to give rows up."""
        following, used = 1, set[int]()
        while following <= self._noted.certain or following in self._noted.files:
            piece = self._piece(following)
            if not piece.lines:
                break
            following = piece.last + 1
            used.add(piece.first)
            yield piece
        self.problems += self._noted.strays(used, following)

    def _piece(self, first: int) -> Piece:
        path, limit = self.paths.segment(first), self._noted.limit(first)
        if not path.exists() or path.is_symlink():
            last = self._noted.certain if limit is None else limit
            return self._missing(path, first, min(last, first + MOST_ROWS - 1))
        data = path.read_bytes()
        self._progress(len(data))
        piece = self._proven(path, first, data) or self._unfinished(path, first, data, limit)
        return piece or self._rebuilt(path, first, data, limit)

    # --- segments that are whole ----------------------------------------------------------------------------------

    def _proven(self, path: Path, first: int, data: bytes) -> Piece | None:
        """The piece of a segment whose bytes have the checksum that was noted, and are rows."""
        length, crc = self._noted.expected(first) or (-1, 0)
        if not 0 <= length <= len(data) or zlib.crc32(data[:length]) != crc:
            return None
        piece = Piece(first, list(data[:length].split(b"\n")[:-1]))
        if not self._are_rows(piece):
            return None
        if self._noted.is_open(first):
            piece.lines += self._tail(path, data, length, piece.last)
        elif len(data) > length:
            piece.changed = True
            behind = Line(len(piece.lines) + 1, length, b"")
            self._add("line_extra", path, f"{len(data) - length} bytes behind the end", "removed", behind)
        self._compare(piece)
        return piece

    def _are_rows(self, piece: Piece) -> bool:
        session_id = self.paths.session_id
        return all(
            row_seq(line or b"", session_id) == seq for seq, line in enumerate(piece.lines, piece.first)
        )

    def _unfinished(self, path: Path, first: int, data: bytes, limit: int | None) -> Piece | None:
        """The piece of a last segment about which nothing was noted yet: rows, and perhaps a torn append."""
        if limit is not None or self._noted.expected(first) is not None:
            return None
        end, last_seq, bad = complete_appends(data, 0, first - 1)
        gap = bad < len(data) and self._noted.position is None and append_after(data, bad)
        if gap or last_seq < self._noted.certain:
            return None
        piece = Piece(first, list(data[:end].split(b"\n")[:-1]))
        if self._different(piece):
            return None
        self._tail(path, data, 0, first - 1)
        return piece

    def _tail(self, path: Path, data: bytes, start: int, seq: int) -> list[bytes | None]:
        """Rows behind the acknowledged ones, as healing would publish them."""
        refused = self._noted.fenced
        end, last_seq, _ = (start, seq, start) if refused else complete_appends(data, start, seq)
        new = max(seq, self._noted.certain) + 1
        if last_seq >= new and self._noted.position is not None:
            detail = f"{seqs(new, last_seq)}: complete, but not acknowledged"
            self._add("not_published", path, detail, "the next open publishes them", note=True)
        if end < len(data):
            detail = (
                f"{len(data) - end} bytes of an append that {'failed' if refused else 'was not finished'}"
            )
            place = Line(data.count(b"\n", 0, end) + 1, end, b"")
            dropped = "the next open drops them and keeps a copy in torn/"
            self._add("torn_append", path, detail, dropped, place, note=True)
        return list(data[start:end].split(b"\n")[:-1])

    def _compare(self, piece: Piece) -> None:
        """A segment whose checksum is right against the commits: where they differ, the commits are wrong."""
        different = self._different(piece)
        if different:
            self.history_differs = True
            detail = f"{seqs(different[0], different[-1])}: committed otherwise than the journal has it"
            self._add("git_differs", self.paths.git, detail, "the commits are made again from the journal")

    def _different(self, piece: Piece) -> list[int]:
        committed = self._committed.lines(piece.first, piece.last)
        return [seq for seq, line in committed.items() if piece.lines[seq - piece.first] != line]

    # --- segments that are not ------------------------------------------------------------------------------------

    def _missing(self, path: Path, first: int, last: int) -> Piece:
        found = self._committed.lines(first, last)
        piece = Piece(first, [found.get(seq) for seq in range(first, last + 1)], changed=True)
        for start, end, is_there in _runs((seq, seq in found) for seq in range(first, last + 1)):
            detail = f"{seqs(start, end)}: the segment is missing"
            repair = RESTORED if is_there else LOST
            self._add("segment_missing", path, detail, repair, rows=(start, end), lost=not is_there)
        return piece

    def _rebuilt(self, path: Path, first: int, data: bytes, limit: int | None) -> Piece:
        """The best of what the segment and the commits have."""
        lines = Lines(data, self.paths.session_id, first, limit)
        last = self._last_row(first, lines) if limit is None else limit
        committed = self._committed.lines(first, last)
        piece = Piece(first, [], changed=True)
        states: list[tuple[int, str]] = []
        for seq in range(first, last + 1):
            mine = lines.rows[seq].text if seq in lines.rows else None
            theirs = committed.get(seq)
            piece.lines.append(mine if theirs is None else theirs)
            states.append((seq, _state(mine, theirs)))
        for start, end, state in _runs(states):
            self._add_rows(path, start, end, state, lines)
        for line in lines.others:
            self._add("line_extra", path, what_is_wrong(line.text), "removed", line)
        self._add_misplaced(path, lines)
        self._judge(path, piece, lines, committed, data)
        return piece

    def _last_row(self, first: int, lines: Lines) -> int:
        """The last row that the last segment has to have, or the last complete append behind it."""
        last = max(self._noted.certain, first - 1)
        if self._noted.position is None:  # nobody knows how far it was acknowledged: as far as there are rows
            return max([last, *(seq for seq, line in lines.rows.items() if not line.text.endswith(b" "))])
        following = last + 1
        while not self._noted.fenced and following in lines.rows:
            if not lines.rows[following].text.endswith(b" "):
                last = following
            following += 1
        return last

    def _add_rows(self, path: Path, start: int, end: int, state: str, lines: Lines) -> None:
        rows = (start, end)
        if state == "changed":
            detail = f"{seqs(*rows)}: not what was committed"
            self._add("row_changed", path, detail, RESTORED, lines.rows[start], lines.rows[end], rows=rows)
        elif state:
            bad = lines.take(start, end)
            lost = state == "lost"
            kind: Kind = "row_damaged" if bad[0].text else "row_missing"
            detail = f"{seqs(*rows)}: {what_is_wrong(bad[0].text)}"
            self._add(kind, path, detail, LOST if lost else RESTORED, bad[0], bad[-1], rows=rows, lost=lost)

    def _judge(
        self, path: Path, piece: Piece, lines: Lines, committed: dict[int, bytes], data: bytes
    ) -> None:
        """Compare what came out with the checksum that was noted, and say what remains unproven."""
        unproven = [seq for seq in lines.rows if seq <= piece.last and seq not in committed]
        if None in piece.lines:
            if unproven and self._noted.expected(piece.first) is not None:
                detail = "whole by their form; their checksum cannot be taken without the lost rows"
                self._add_unproven(path, lines, unproven, detail, "kept as they are", note=True)
            return
        body = b"".join(b"%s\n" % line for line in piece.lines)
        length, crc = self._noted.expected(piece.first) or (len(body), zlib.crc32(body))
        right = length <= len(body) and zlib.crc32(body[:length]) == crc
        piece.changed = body != data or not right
        if right:
            return
        if unproven:
            detail = "rows by their form, but the checksum tells that bytes in them were changed"
            kept = "kept as they are, with a new checksum: there is no copy to compare them with"
            self._add_unproven(path, lines, unproven, detail, kept)
        else:
            noted = self.paths.acknowledged if self._noted.is_open(piece.first) else self.paths.sealed
            detail = f"the checksum of {path.name} is not that of its rows, which are as committed"
            self._add("checksum_wrong", noted, detail, "computed anew")

    def _add_unproven(
        self, path: Path, lines: Lines, unproven: list[int], detail: str, repair: str, *, note: bool = False
    ) -> None:
        rows = (min(unproven), max(unproven))
        places = lines.rows[rows[0]], lines.rows[rows[1]]
        self._add("rows_unproven", path, f"{seqs(*rows)}: {detail}", repair, *places, rows=rows, note=note)

    def _add_misplaced(self, path: Path, lines: Lines) -> None:
        """Rows that are all there, in another order."""
        order = [seq for seq, _ in sorted(lines.rows.items(), key=lambda item: item[1].number)]
        wrong = next((seq for seq, right in zip(order, sorted(order), strict=True) if seq != right), None)
        if wrong is not None:
            detail = f"row {wrong}: out of order"
            self._add(
                "row_misplaced", path, detail, "put in its place", lines.rows[wrong], rows=(wrong, wrong)
            )

    def _add(
        self,
        kind: Kind,
        path: Path,
        detail: str,
        repair: str,
        line: Line | None = None,
        last_line: Line | None = None,
        *,
        rows: tuple[int, int] = (0, 0),
        lost: bool = False,
        note: bool = False,
    ) -> None:
        self.problems.append(
            Problem(
                kind=kind,
                path=str(path),
                detail=detail,
                repair=repair,
                line=line.number if line else 0,
                last_line=(last_line or line).number if line else 0,
                offset=line.offset if line else -1,
                first_seq=rows[0],
                last_seq=rows[1],
                lost=lost,
                note=note,
            )
        )


def _state(mine: bytes | None, theirs: bytes | None) -> str:
    """What is wrong with a row of a segment and its committed copy."""
    if mine is None:
        return "lost" if theirs is None else "missing"
    return "changed" if theirs is not None and theirs != mine else ""


def _runs(states: Iterable[tuple[int, T]]) -> Iterator[tuple[int, int, T]]:
    """Neighbours of the same state together: first, last, state."""
    for state, group in itertools.groupby(states, key=lambda pair: pair[1]):
        run = [seq for seq, _ in group]
        yield run[0], run[-1], state
