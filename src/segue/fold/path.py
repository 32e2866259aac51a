"""The active path: which rows are still part of the story after rewinds."""

from __future__ import annotations

from collections.abc import Iterable

from segue.events.envelope import Envelope


def active(transcript: Iterable[Envelope]) -> list[Envelope]:
    """The rows of the active path, in their order, without the HEAD_MOVEDs that lead along it."""
    return [envelope for envelope in active_path(transcript) if _target(envelope) is None]


def active_path(transcript: Iterable[Envelope]) -> list[Envelope]:
    """The rows that lead to the last one: each follows the row before it, but a HEAD_MOVED the row it names.

    So a later HEAD_MOVED can lead back to a row that an earlier one hid. One that names no earlier row moves nothing.
    """
    rows = list(transcript)
    path, place = [], len(rows)
    while place > 0:
        row = rows[place - 1]
        path.append(row)
        place -= 1
        target = _target(row)
        while target is not None and place > 0 and rows[place - 1].seq > target:
            place -= 1
    return path[::-1]


def _target(envelope: Envelope) -> int | None:
    """The seq that a HEAD_MOVED leads back to; None for any other row."""
    payload = envelope.payload
    if envelope.type != "HEAD_MOVED" or type(payload) is not dict:
        return None
    to_seq = payload.get("to_seq")
    return to_seq if type(to_seq) is int and 0 <= to_seq < envelope.seq else None
