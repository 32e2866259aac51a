"""The meter of a turn counts what it spends, warns, and refuses what goes over its budget.

Turns of other sessions that are opened inside it count to it. What was spent before, by earlier attempts, and by other
turns of the session where that has a budget, is read from the record when a limit first asks for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from segue.errors import BudgetExceeded, TurnEnded, UnmeasuredBudget
from segue.events.facts import BudgetWarning, UsageReported
from segue.fold.spending import Spending, Spent
from segue.models.costs import cost
from segue.models.protocol import Usage
from segue.session.budget import LIMITS, Budget, Limit, Scope

if TYPE_CHECKING:
    from segue.session.turn import Turn

WARN_AT = 0.8
"""The share of a limit."""
DIGITS = 9
"""Dollars are compared to the billionth: what sums of floats are off by is less."""
UNITS: dict[Limit, str] = {
    "seconds": "s",
    "model_calls": "model calls",
    "tokens": "tokens",
    "cost": "US dollars",
}


class Meter:
    """Of one turn. Thread-safe; it never calls a turn while it holds its lock."""

    def __init__(self, turn: Turn, outer: Meter | None = None) -> None:
        self.turn, self.outer = turn, outer
        self.budget: Budget | None = None
        self._lock: threading.RLock = threading.RLock() if outer is None else outer._lock
        """One for all turns that count together."""
        self._began = 0.0
        self._found: int | None = None
        """The session's last row before this attempt's first."""
        self._live = Spent()
        """By this attempt itself."""
        self._recorded: Spent | None = None
        """By earlier attempts themselves; None before anything asked."""
        self._others: Spent | None = None
        """By the session's other turns; as above."""
        self._inside: dict[tuple[str, str], Spent] = {}
        """By turns that were opened inside and have been left, by session and turn id."""
        self._running: list[Meter] = []
        """Of those that have not."""
        self._warned: set[tuple[str, str]] = set()
        """(scope, limit), by earlier attempts too."""
        self.warnings: list[BudgetWarning] = []
        """Those that this attempt was given."""

    def limit(self, budget: Budget | None) -> None:
        """This holds too, from now on."""
        if budget is not None:
            self.budget = budget.within(self.budget)

    def start(self) -> None:
        """The attempt is about to write its first row, and its time begins."""
        self._began, self._found = time.monotonic(), self.turn.journal.last_seq

    # --- model calls ---

    def begin(self, model: str) -> None:
        """A model call is about to begin, and counts. Raises `BudgetExceeded`, which ends the turn, and
        `UnmeasuredBudget`, `MissingExtra` where nobody could tell what it costs."""
        with self._lock:
            for meter in self._line():
                meter._require_measurable(model)
            over = [(meter, problem) for meter in self._line() if (problem := meter._problem(LIMITS))]
            if not over:
                self._live.began(model)
                return
        limited, problem = over[-1]
        for meter in [*takewhile(lambda meter: meter is not limited, self._line()), limited]:
            meter.turn.stop(problem, at_once=False)
        raise problem

    def ended(self, model: str, usage: Usage | None) -> dict[str, Any] | None:
        """A model call has ended well, and what it used counts. Gives that as it is to be recorded."""
        used: dict[str, Any] | None = None if usage is None else msgspec.to_builtins(usage)
        with self._lock:
            if used is not None and any(meter._limits("cost") for meter in self._line()):
                price = cost(model, used)
                used |= {} if price is None else {"cost": float(price)}
            self._live.ended(model, used)
        return used

    # --- looking ---

    def look(self) -> None:
        """Warn where four fifths of a limit are spent, once; end the turn, at once, when its time is over."""
        for meter in self._line():
            if meter.budget is None or meter.turn.ended:
                continue
            with meter._lock:
                over, warnings = meter._problem(("seconds",)), meter._warnings()
            with suppress(TurnEnded):
                for warning in warnings:
                    meter.turn.submit(warning)
            if over is not None:
                meter._stop_at_once(over)

    def require_time(self) -> None:
        """Before each step. Raises `BudgetExceeded`."""
        for meter in self._line():
            if meter._limits("seconds"):
                with meter._lock:
                    over = meter._problem(("seconds",))
                if over is not None:
                    meter._stop_at_once(over)
                    raise over

    def _stop_at_once(self, problem: BudgetExceeded) -> None:
        for inside in list(self._running):
            inside._stop_at_once(problem)
        self.turn.stop(problem)

    # --- turns of other sessions, opened inside ---

    def attach(self) -> None:
        """The turn was opened inside another one, and counts there."""
        if self.outer is not None:
            with self._lock:
                self.outer._running.append(self)

    def detach(self) -> None:
        """It is left. The outer turn keeps a record of what it spent, where that is limited."""
        outer = self.outer
        if outer is None:
            return
        with self._lock:
            outer._running.remove(self)
            outer._load_own()
            spent, known = self._of_turn(), outer._inside.get(self._key, Spent())
            outer._inside[self._key] = spent
            is_limited = any(meter.budget is not None for meter in outer._line())
        if is_limited and spent.models != known.models:
            models = msgspec.to_builtins(spent.models)
            with suppress(TurnEnded):  # it was left behind: nothing of it counts any more
                outer.turn.submit(UsageReported(session_id=self._key[0], turn_id=self._key[1], models=models))

    @property
    def _key(self) -> tuple[str, str]:
        return self.turn.session_id, self.turn.turn_id

    def _line(self) -> Iterator[Meter]:
        """This one and those that it counts to."""
        meter: Meter | None = self
        while meter is not None:
            yield meter
            meter = meter.outer

    # --- what is spent: under the lock ---

    def _of_turn(self) -> Spent:
        self._load_own()
        assert self._recorded is not None
        own, live = Spent(), Spent(seconds=time.monotonic() - self._began if self._began else 0.0)
        for part in (self._recorded, self._live, live):
            own.add(part)
        inside = self._inside | {meter._key: meter._of_turn() for meter in self._running}
        for part in inside.values():
            own.add(Spent(models=part.models))
        return own

    def _of_session(self) -> Spent:
        if self._others is None:
            with self.turn.journal.viewing(Spending) as spending:
                self._others = spending.besides(self.turn.turn_id)
        spent = self._of_turn()
        spent.add(self._others)
        return spent

    def _load_own(self) -> None:
        """What the record has of this turn's earlier attempts."""
        if self._recorded is not None:
            return
        self._recorded, known, spending = Spent(), self.turn.recorded_turn, Spending()
        if known is None:
            return
        last = self.turn.journal.last_seq if self._found is None else self._found
        rows = self.turn.journal.read(known.started_seq - 1)
        for row in takewhile(lambda row: row.seq <= last, rows):
            spending.apply(row)
        self._recorded, self._warned = spending.own(known.turn_id), spending.warned(known.turn_id)
        self._inside = spending.inside(known.turn_id) | self._inside

    # --- limits: under the lock ---

    def _limits(self, limit: Limit) -> bool:
        return any(getattr(budget, limit) is not None for _, budget in self._budgets())

    def _budgets(self) -> list[tuple[Scope, Budget]]:
        if self.budget is None:
            return []
        session = self.budget.session
        return [("turn", self.budget), *([] if session is None else [("session", session)])]  # type: ignore[list-item]

    def _amounts(self, limits: Sequence[Limit]) -> Iterator[tuple[Scope, Limit, float, float]]:
        """Scope, limit, what is spent of it, and what is allowed."""
        for scope, budget in self._budgets():
            asked = [limit for limit in limits if getattr(budget, limit) is not None]
            spent = (self._of_turn() if scope == "turn" else self._of_session()) if asked else Spent()
            for limit in asked:
                yield scope, limit, _amount(spent, limit), getattr(budget, limit)

    def _problem(self, limits: Sequence[Limit]) -> BudgetExceeded | None:
        for scope, limit, spent, allowed in self._amounts(limits):
            if spent >= allowed:
                return self._exceeded(scope, limit, spent, allowed)
        return None

    def _exceeded(self, scope: Scope, limit: Limit, spent: float, allowed: float) -> BudgetExceeded:
        whose, fix = (
            f"turn {self.turn.turn_id}",
            "a new turn begins with a new budget; give a larger one to go further",
        )
        if scope == "session":
            whose, fix = (
                f"session {self.turn.session_id}",
                "give the session a larger budget, or begin another one",
            )
        return BudgetExceeded(
            f"{whose} has spent {spent:.6g} of {allowed:.6g} {UNITS[limit]}: {fix}",
            limit=limit,
            scope=scope,
            spent=spent,
            allowed=allowed,
        )

    def _warnings(self) -> list[BudgetWarning]:
        if self._recorded is None and self.turn.recorded_turn is not None:
            self._load_own()
        new = [
            BudgetWarning(turn_id=self.turn.turn_id, scope=scope, limit=limit, spent=spent, allowed=allowed)
            for scope, limit, spent, allowed in self._amounts(LIMITS)
            if spent >= WARN_AT * allowed and (scope, limit) not in self._warned
        ]
        self._warned |= {(warning.scope, warning.limit) for warning in new}
        self.warnings += new
        return new

    def _require_measurable(self, model: str) -> None:
        if not (self._limits("tokens") or self._limits("cost")):
            return
        instead = "limit model_calls or seconds instead"
        if self._limits("cost") and cost(model, {}) is None:
            raise UnmeasuredBudget(
                f"nobody knows the price of {model}, so its cost cannot be limited: {instead}"
            )
        for scope, budget in self._budgets():
            if budget.tokens is None and budget.cost is None:
                continue
            spent = self._of_turn() if scope == "turn" else self._of_session()
            for name, used in spent.models.items():
                if used.uncounted:
                    raise UnmeasuredBudget(
                        f"{name} does not say what it uses, so tokens cannot be limited: {instead}"
                    )
                if (
                    budget.cost is not None
                    and any(used.unpriced.values())
                    and cost(name, used.unpriced) is None
                ):
                    raise UnmeasuredBudget(
                        f"nobody knows the price of {name}, which this {scope} asked before: {instead}"
                    )


def _amount(spent: Spent, limit: Limit) -> float:
    if limit != "cost":
        return getattr(spent, limit)  # type: ignore[no-any-return]
    total = 0.0
    for model, used in spent.models.items():
        price = cost(model, used.unpriced) if any(used.unpriced.values()) else None
        total += used.usage.get("cost", 0) + float(price or 0)
    return round(total, DIGITS)
