"""The planted bug: healing publishes the whole lines of a torn append."""

from __future__ import annotations

from segue.stores.git import healing


def complete_appends(data: bytes, start: int, seq: int) -> tuple[int, int, int]:
    offset = start
    while (newline := data.find(b"\n", offset)) >= 0:
        if healing.row_problem(data[offset:newline], seq + 1) is not None:
            break
        seq, offset = seq + 1, newline + 1
    return offset, seq, offset


healing.complete_appends = complete_appends
