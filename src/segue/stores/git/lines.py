"""The lines of one segment that cannot be believed as a whole: which are rows, and where the others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from segue.errors import InvalidEvent
from segue.events.codec import decode_row


class Line(NamedTuple):
    number: int
    """From 1."""
    offset: int
    text: bytes
    """Without its line feed."""

    @property
    def end(self) -> int:
        return self.offset + len(self.text) + 1


class Lines:
    """The rows `first` to `limit` of a session among the lines of some bytes, and what else is there."""

    def __init__(self, data: bytes, session_id: str, first: int, limit: int | None) -> None:
        self.rows: dict[int, Line] = {}
        """By seq. Of two lines with the same seq the first."""
        self.others: list[Line] = []
        """Lines that are no row, or a row that is not looked for here, in order."""
        for line in _lines(data):
            seq = row_seq(line.text, session_id) if line.end <= len(data) else None
            if seq is None or seq < first or seq in self.rows or (limit is not None and seq > limit):
                self.others.append(line)
            else:
                self.rows[seq] = line

    def take(self, first: int, last: int) -> list[Line]:
        """The lines that stand where rows first to last should be, out of `others`; the first is where they should
        begin, with empty text, when there are none."""
        before = max((seq for seq in self.rows if seq < first), default=0)
        after = min((seq for seq in self.rows if seq > last), default=0)
        start, offset = (self.rows[before].number + 1, self.rows[before].end) if before else (1, 0)
        end = self.rows[after].number if after else start + len(self.others) + last - first
        taken = [line for line in self.others if start <= line.number < end][: last - first + 1]
        self.others = [line for line in self.others if line not in taken]
        return taken or [Line(start, offset, b"")]


def row_seq(line: bytes, session_id: str) -> int | None:
    """The seq of a line that is a row of this session, else None."""
    try:
        envelope = decode_row(line)
    except InvalidEvent:
        return None
    return envelope.seq if envelope.session_id == session_id and envelope.seq > 0 else None


def what_is_wrong(text: bytes) -> str:
    """What a line is that is not the row that belongs there."""
    if not text.strip(b"\0"):
        return f"{len(text)} NUL bytes" if text else "missing"
    try:
        envelope = decode_row(text)
    except InvalidEvent as error:
        return f"not a row: {error}"
    return f"row {envelope.seq} of session {envelope.session_id}, out of place or once more"


def _lines(data: bytes) -> Iterator[Line]:
    """All lines, also a last one without a line feed."""
    offset, number = 0, 1
    while offset < len(data):
        end = data.find(b"\n", offset)
        end = len(data) if end < 0 else end
        yield Line(number, offset, data[offset:end])
        offset, number = end + 1, number + 1
