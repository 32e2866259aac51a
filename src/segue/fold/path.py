"""The active path: which rows are still part of the story after rewinds."""

from __future__ import annotations

from collections.abc import Iterable

from segue.events.envelope import Envelope


def active(transcript: Iterable[Envelope]) -> list[Envelope]:
    """The rows that no HEAD_MOVED hides, in their order.

    `HEAD_MOVED{to_seq}` hides those with a seq in (to_seq, its own]; later rows are visible. One that points
    at no earlier row hides nothing.
    """
    visible: list[Envelope] = []
    for envelope in transcript:
        if envelope.type == "HEAD_MOVED" and _rewinds(envelope):
            to_seq = envelope.payload["to_seq"]
            while visible and visible[-1].seq > to_seq:
                visible.pop()
        else:
            visible.append(envelope)
    return visible


def _rewinds(envelope: Envelope) -> bool:
    payload = envelope.payload
    to_seq = payload.get("to_seq") if type(payload) is dict else None
    return type(to_seq) is int and 0 <= to_seq < envelope.seq
