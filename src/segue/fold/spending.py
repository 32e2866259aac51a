"""What turns spent on models, and how long they took. Budgets stand on it."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.events.facts import CONTROL_TYPES
from segue.fold.diagnostics import Payload, text_or
from segue.fold.graph import TERMINAL
from segue.fold.usage import Counts, add_counts, counts_of

ENDS = frozenset({"NO_MORE_ACTIONS", "TURN_CANCELLED", "TURN_SUSPENDED", "SESSION_ERROR"})
"""Of an attempt of a turn."""


class Used(msgspec.Struct, omit_defaults=True):
    """What calls of one model used."""

    calls: int = 0
    """Each that began, in every attempt. Answers from the record are none."""
    usage: Counts = {}
    unpriced: Counts = {}
    """The part of calls that do not say their cost."""
    uncounted: int = 0
    """Calls that ended well and do not say what they used."""

    def add(self, other: Used, times: int = 1) -> None:
        self.calls += times * other.calls
        self.uncounted += times * other.uncounted
        add_counts(self.usage, _times(other.usage, times))
        add_counts(self.unpriced, _times(other.unpriced, times))


class Spent(msgspec.Struct):
    seconds: float = 0.0
    """From each attempt's first row to its end, as far as it is over; where the process died, to its last row."""
    models: dict[str, Used] = {}

    def began(self, model: str) -> None:
        self._of(model).calls += 1

    def ended(self, model: str, usage: Any) -> None:
        """A call has ended well. `usage` is what its end says, None for nothing."""
        counts = counts_of(usage)
        unpriced = {} if "cost" in counts else counts
        used = Used(usage=counts, unpriced=unpriced, uncounted=int(type(usage) is not dict))
        self._of(model).add(used)

    def add(self, other: Spent, times: int = 1) -> None:
        self.seconds += times * other.seconds
        for model, used in other.models.items():
            self._of(model).add(used, times)

    @property
    def model_calls(self) -> int:
        return sum(used.calls for used in self.models.values())

    @property
    def tokens(self) -> int:
        """Of input and output."""
        usages = [used.usage for used in self.models.values()]
        return int(sum(usage.get("input_tokens", 0) + usage.get("output_tokens", 0) for usage in usages))

    def _of(self, model: str) -> Used:
        return self.models.setdefault(model, Used())


class Spending:
    """Incremental: `apply` rows in order. A call's rows after its terminal end do not count."""

    def __init__(self) -> None:
        self._all, self._own = Spent(), dict[str, Spent]()
        """Of all turns, and by turn, without what those reported."""
        self._inside: dict[str, dict[tuple[str, str], Spent]] = {}
        """By turn: what it reported of turns of other sessions."""
        self._warned: dict[str, set[tuple[str, str]]] = {}
        self._calls: dict[str, tuple[str, str]] = {}
        """Model and turn of the model calls that have no end."""
        self._turn_id = ""
        self._times: tuple[str, str, str] | None = None
        """Of the attempt that runs: its first row, its last one, and the last one that was written before that."""

    def turn(self, turn_id: str) -> Spent:
        """With what it reported. The caller's own."""
        return _sum([self.own(turn_id), *self.inside(turn_id).values()])

    def own(self, turn_id: str) -> Spent:
        """Without that. The caller's own."""
        return _sum([self._own.get(turn_id, Spent())])

    @property
    def session(self) -> Spent:
        """Of all turns. The caller's own."""
        reported = [spent for turn_id in self._inside for spent in self.inside(turn_id).values()]
        return _sum([self._all, *reported])

    def besides(self, turn_id: str) -> Spent:
        """Of all other turns. The caller's own."""
        rest = self.session
        rest.add(self.turn(turn_id), -1)
        return rest

    def inside(self, turn_id: str) -> dict[tuple[str, str], Spent]:
        """What a turn reported of turns that it had opened, by their session and turn id."""
        return dict(self._inside.get(turn_id, {}))

    def warned(self, turn_id: str) -> set[tuple[str, str]]:
        """(scope, limit) of the warnings that a turn was given."""
        return set(self._warned.get(turn_id, ()))

    def apply(self, envelope: Envelope) -> None:
        if type(envelope.payload) is not dict:
            return
        if envelope.type not in CONTROL_TYPES:
            self._time(envelope, envelope.payload)
        handler = _HANDLERS.get(envelope.type)
        if handler is not None:
            handler(self, envelope.payload)

    def _both(self, turn_id: str) -> tuple[Spent, Spent]:
        return self._all, self._own.setdefault(turn_id, Spent())

    # --- time ---

    def _time(self, envelope: Envelope, payload: Payload) -> None:
        now = envelope.created_at
        if envelope.type == "INVOCATION_STARTED":
            turn_id = text_or(payload.get("turn_id"))
            if (
                self._times is None or turn_id != self._turn_id
            ):  # otherwise another exchange of the same attempt
                self._turn_id, self._times = turn_id, (now, now, now)
        if self._times is None:
            return
        first, last, before = self._times
        before = before if now == last else last
        if envelope.type not in ENDS:
            self._times = (first, now, before)
            return
        # what closes a dead attempt is written, all at once, when somebody finds it
        seconds = _between(first, before if envelope.type == "SESSION_ERROR" else now)
        for spent in self._both(self._turn_id):
            spent.seconds += seconds
        self._times = None

    # --- models ---

    def _call_started(self, payload: Payload) -> None:
        if payload.get("kind") == "model":
            model, turn_id = text_or(payload.get("name")), text_or(payload.get("turn_id")) or self._turn_id
            self._calls[text_or(payload.get("node_id"))] = (model, turn_id)
            for spent in self._both(turn_id):
                spent.began(model)

    def _call_ended(self, payload: Payload) -> None:
        node_id, status = text_or(payload.get("node_id")), text_or(payload.get("status"))
        if node_id not in self._calls:
            return
        model, turn_id = self._calls[node_id]
        if status in TERMINAL:
            del self._calls[node_id]
        if status == "completed" or counts_of(payload.get("usage")):
            for spent in self._both(turn_id):
                spent.ended(model, payload.get("usage"))

    def _usage_reported(self, payload: Payload) -> None:
        key = (text_or(payload.get("session_id")), text_or(payload.get("turn_id")))
        given = payload.get("models")
        models = {
            model: Used(
                calls=_count(used.get("calls")),
                usage=counts_of(used.get("usage")),
                unpriced=counts_of(used.get("unpriced")),
                uncounted=_count(used.get("uncounted")),
            )
            for model, used in (given.items() if type(given) is dict else ())
            if type(used) is dict
        }
        self._inside.setdefault(self._turn_id, {})[key] = Spent(models=models)

    def _budget_warning(self, payload: Payload) -> None:
        warned = self._warned.setdefault(text_or(payload.get("turn_id")), set())
        warned.add((text_or(payload.get("scope")), text_or(payload.get("limit"))))


def _sum(parts: list[Spent]) -> Spent:
    total = Spent()
    for part in parts:
        total.add(part)
    return total


def _times(counts: Counts, times: int) -> Counts:
    return {name: times * count for name, count in counts.items()}


def _count(value: Any) -> int:
    return value if type(value) is int else 0


def _between(first: str, last: str) -> float:
    """Seconds; none where a clock went back, or the times are no times."""
    try:
        passed = datetime.datetime.fromisoformat(last) - datetime.datetime.fromisoformat(first)
        return max(passed.total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0


_HANDLERS = {
    "CALL_STARTED": Spending._call_started,
    "CALL_ENDED": Spending._call_ended,
    "USAGE_REPORTED": Spending._usage_reported,
    "BUDGET_WARNING": Spending._budget_warning,
}
