"""Reading segments: lines between two seqs, checked on the way, damage named by file, line and byte.

Framing: one row a line. Every line of an append but its first has a tab before the newline, and every one but its
last a space, after the tab: so a torn append is recognised and dropped whole. Readers take both off.

A segment that is read whole is compared with its checksum before its first row is given out. Near the end
only the wanted lines are read, from behind, so their cost does not grow with the journal.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from segue.errors import CorruptJournal, InvalidEvent
from segue.events.codec import decode_row, decode_rows
from segue.events.envelope import Envelope
from segue.stores.git.acknowledged import Position
from segue.stores.git.layout import SessionPaths, write_all
from segue.stores.ids import id_of

SMALL = 1 << 16
"""Bytes under which a segment is read whole, and so verified, however few lines are wanted."""
_SEALED = re.compile(rb"^(\d+) (\d+) ([0-9a-f]{8}) \.\n", re.MULTILINE)
BATCH = 1 << 14
"""Bytes of rows that are decoded at once: more would only fill the processor's caches."""


class Segment(msgspec.Struct, frozen=True):
    path: Path
    first: int
    last: int
    length: int
    """Bytes that are acknowledged."""
    crc: int | None
    """CRC-32 of those bytes, None when it is not known."""


def read_batches(paths: SessionPaths, until: Position, after_seq: int) -> Iterator[list[Envelope]]:
    """Rows after `after_seq` up to the position, some at a time. Raises CorruptJournal, OSError."""
    for segment in segments_after(paths, until, after_seq):
        seq = max(after_seq, segment.first - 1)
        yield from decoded(segment, seq + 1, _data_after(segment, seq), paths.session_id)


def decoded(segment: Segment, first_seq: int, data: bytes, session_id: str) -> Iterator[list[Envelope]]:
    """The rows of these lines, which are the last of their segment, some at a time. Raises CorruptJournal."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + BATCH) + 1 or len(data)
        rows = _decoded(segment, first_seq, data[start:end], session_id)
        first_seq, start = first_seq + len(rows), end
        if first_seq - 1 > segment.last:
            break
        yield rows
    if first_seq - 1 != segment.last:
        raise damage(segment)


def read_rows(paths: SessionPaths, until: Position, after_seq: int) -> Iterator[Envelope]:
    """Rows after `after_seq` up to the position. Raises CorruptJournal, OSError."""
    return itertools.chain.from_iterable(read_batches(paths, until, after_seq))


def read_lines(paths: SessionPaths, until: Position, after_seq: int) -> Iterator[bytes]:
    """The same rows as the bytes they are kept as. Raises CorruptJournal, OSError."""
    for segment in segments_after(paths, until, after_seq):
        for line in lines_after(segment, max(after_seq, segment.first - 1)):
            yield line.rstrip(b"\t ")


def segments_after(paths: SessionPaths, until: Position, after_seq: int) -> Iterator[Segment]:
    """The segments that hold rows after `after_seq`, in order."""
    if after_seq >= until.seq:
        return
    firsts = [first for first in paths.segments() if first <= until.segment]
    if not firsts or firsts[0] != 1 or firsts[-1] != until.segment:
        missing = paths.segment(until.segment if firsts and firsts[0] == 1 else 1)
        raise corrupt(missing, 0, 0, "the segment is missing")
    wanted = firsts[bisect.bisect_right(firsts, after_seq + 1) - 1 :]
    sealed = read_sealed(paths) if len(wanted) > 1 else {}
    for first, following in itertools.pairwise(wanted):
        path = paths.segment(first)
        length, crc = sealed.get(first, (None, None))
        size = os.stat(path).st_size if length is None else length
        yield Segment(path, first, following - 1, size, crc)
    yield Segment(paths.segment(until.segment), until.segment, until.seq, until.length, until.crc)


def lines_after(segment: Segment, after_seq: int) -> list[bytes]:
    """The lines of its rows after `after_seq`, framing included. Raises CorruptJournal, OSError."""
    lines = _data_after(segment, after_seq).split(b"\n")
    if lines.pop() or len(lines) != segment.last - after_seq:
        raise damage(segment)
    return lines


def _data_after(segment: Segment, after_seq: int) -> bytes:
    """These lines as they are in the file, if it has as many as it should: the caller sees. Raises the same."""
    wanted, rows = segment.last - after_seq, segment.last - segment.first + 1
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if segment.length > SMALL and wanted * 2 < rows:
            data = _last_lines(descriptor, segment.length, wanted)
        else:
            data = _of_whole(verified(segment, pread_all(descriptor, segment.length, 0)), wanted, rows)
    finally:
        os.close(descriptor)
    return data


def _of_whole(data: bytes, wanted: int, rows: int) -> bytes:
    """The last lines of a segment's data; all of it when it does not hold as many lines as it should."""
    if wanted == rows or data.count(b"\n") != rows:
        return data
    return data[_start_of_last(data, wanted) :]


def verified(segment: Segment, data: bytes) -> bytes:
    """The data of a whole segment.

    Raises CorruptJournal when length or checksum are not those acknowledged.
    """
    if len(data) < segment.length or (segment.crc is not None and zlib.crc32(data) != segment.crc):
        raise damage(segment)
    return data


def damage(segment: Segment) -> CorruptJournal:
    """The error that says where the first bad line of this segment is."""
    with open(segment.path, "rb") as file:
        data = file.read(segment.length)
    offset = 0
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        if (problem := row_problem(line, segment.first + number - 1)) is not None:
            return corrupt(segment.path, number, offset, problem)
        offset += len(line) + 1
    line_number = data.count(b"\n") + 1
    if len(data) < segment.length or offset < len(data):
        return corrupt(segment.path, line_number, offset, "acknowledged bytes are missing")
    return corrupt(segment.path, 0, 0, "all lines are rows, but the checksum tells that bytes were changed")


def corrupt(path: Path, line: int, offset: int, problem: str) -> CorruptJournal:
    place = f"{path}, line {line} (byte {offset})" if line else str(path)
    name = id_of(path.parent.parent.name) or "ID"
    advice = f"nothing was changed: `segue sessions verify {name}` says more, `segue sessions repair {name}` mends it"
    return CorruptJournal(f"{place}: {problem}; {advice}", path=str(path), line=line, offset=offset)


def row_problem(line: bytes, seq: int) -> str | None:
    """What is wrong with the line of this seq, None when nothing is."""
    try:
        found = decode_row(line).seq
    except InvalidEvent as error:
        return f"not a row: {error}"
    return None if found == seq else f"row {found} where row {seq} belongs"


def pread_all(descriptor: int, length: int, offset: int) -> bytes:
    """`length` bytes from `offset`, fewer only at the end of the file. Raises OSError."""
    parts = []
    while length > 0 and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        length, offset = length - len(part), offset + len(part)
    return b"".join(parts)


def read_sealed(paths: SessionPaths) -> dict[int, tuple[int, int]]:
    """First seq -> length and CRC-32 of each full segment that is listed.

    Derived: lines that are missing, or torn by a power loss, only cost the check.
    """
    try:
        text = paths.sealed.read_bytes()
    except FileNotFoundError:
        return {}
    return {int(line[1]): (int(line[2]), int(line[3], 16)) for line in _SEALED.finditer(text)}


def seal(paths: SessionPaths, position: Position) -> None:
    """Note length and checksum of a segment that gets no more rows. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(paths.sealed, flags, 0o600)
    try:
        write_all(descriptor, f"{position.segment} {position.length} {position.crc:08x} .\n".encode())
        os.fdatasync(descriptor)  # once in a segment's life; without it damage could hide after a power loss
    finally:
        os.close(descriptor)


def _decoded(segment: Segment, first_seq: int, data: bytes, session_id: str) -> list[Envelope]:
    """The rows of these lines, all checked."""
    try:
        rows = decode_rows(data)
    except InvalidEvent as error:
        raise damage(segment) from error
    if [row.seq for row in rows] != list(range(first_seq, first_seq + len(rows))):
        raise damage(segment)
    strangers = [row for row in rows if row.session_id != session_id]
    if strangers:
        line = strangers[0].seq - segment.first + 1
        raise corrupt(segment.path, line, 0, f"a row of session {strangers[0].session_id}")
    return rows


def _last_lines(descriptor: int, length: int, count: int) -> bytes:
    """The last `count` lines of the first `length` bytes, read from behind in growing steps."""
    size = SMALL
    while True:
        start = max(0, length - size)
        data = pread_all(descriptor, length - start, start)
        cut = _start_of_last(data, count)
        if cut >= 0:
            return data[cut:]
        if start == 0:
            return data
        size *= 4


def _start_of_last(data: bytes, count: int) -> int:
    """Where the last `count` lines begin, -1 when the data may not hold them all."""
    cut = len(data) - 1
    for _ in range(count):
        cut = data.rfind(b"\n", 0, cut)
        if cut < 0:
            return -1
    return cut + 1
