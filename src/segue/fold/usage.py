"""What was used: tokens and whatever else a CALL_ENDED counts, summed by call, turn and session."""

from __future__ import annotations

from typing import Any

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Payload, text_or
from segue.fold.graph import TERMINAL

Counts = dict[str, int | float]


class Usage:
    """Incremental: `apply` rows in order. Every attempt of a call counts; a row after its terminal end does not."""

    def __init__(self) -> None:
        self._session: Counts = {}
        self._turns: dict[str, Counts] = {}
        self._nodes: dict[str, Counts] = {}
        self._places: dict[str, tuple[str, str]] = {}
        """Caller and turn of each call."""
        self._settled: set[str] = set()
        self._turn_id = ""

    def apply(self, envelope: Envelope) -> None:
        handler = _HANDLERS.get(envelope.type)
        if handler is not None and type(envelope.payload) is dict:
            handler(self, envelope.payload)

    @property
    def session(self) -> Counts:
        return dict(self._session)

    def turn(self, turn_id: str) -> Counts:
        return dict(self._turns.get(turn_id, {}))

    def node(self, node_id: str) -> Counts:
        """Of the call and all calls inside it."""
        return dict(self._nodes.get(node_id, {}))

    def _invocation_started(self, payload: Payload) -> None:
        self._turn_id = text_or(payload.get("turn_id"))

    def _call_started(self, payload: Payload) -> None:
        node_id = text_or(payload.get("node_id"))
        turn_id = text_or(payload.get("turn_id")) or self._turn_id
        self._places.setdefault(node_id, (text_or(payload.get("called_by")), turn_id))

    def _call_ended(self, payload: Payload) -> None:
        node_id = text_or(payload.get("node_id"))
        if node_id not in self._places or node_id in self._settled:
            return
        if text_or(payload.get("status")) in TERMINAL:
            self._settled.add(node_id)
        counts = counts_of(payload.get("usage"))
        for total in (self._session, self._turns.setdefault(self._places[node_id][1], {})):
            add_counts(total, counts)
        for inside in self._around(node_id) if counts else ():
            add_counts(self._nodes.setdefault(inside, {}), counts)

    def _around(self, node_id: str) -> list[str]:
        """The call and its callers, the nearest first."""
        found: dict[str, None] = {}
        while node_id in self._places and node_id not in found:
            found[node_id] = None
            node_id = self._places[node_id][0]
        return list(found)


def counts_of(usage: Any) -> Counts:
    """The numbers in a row's `usage`; anything else is left out, and so are NaN and infinities, which have no sum."""
    given = usage.items() if type(usage) is dict else ()
    return {
        key: value
        for key, value in given
        if type(value) is int or (type(value) is float and value - value == 0)
    }


def add_counts(total: Counts, counts: Counts) -> None:
    """Add to `total` in place."""
    for key, value in counts.items():
        try:
            total[key] = total.get(key, 0) + value
        except OverflowError:  # an integer beyond the range of a float
            continue


_HANDLERS = {
    "INVOCATION_STARTED": Usage._invocation_started,
    "CALL_STARTED": Usage._call_started,
    "CALL_ENDED": Usage._call_ended,
}
