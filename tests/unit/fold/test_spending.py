from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.fold import Spending

NOTHING: dict[str, Any] = {}


def spending_of(rows: list[Any], times: list[float] | None = None) -> Spending:
    """`times` are the seconds of the rows, in one minute."""
    spending = Spending()
    for number, row in enumerate(rows):
        second = number if times is None else times[number]
        spending.apply(msgspec.structs.replace(row, created_at=f"2026-12-01T10:00:{second:09.6f}Z"))
    return spending


def invoked(turn: str, attempt: int = 1) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn, "reason": {}, "attempt": attempt})


def started(node: str, turn: str = "t") -> tuple[str, Any]:
    return ("CALL_STARTED", {"node_id": node, "kind": "model", "name": "m", "turn_id": turn})


def ended(node: str, usage: Any, status: str = "completed") -> tuple[str, Any]:
    return ("CALL_ENDED", {"node_id": node, "status": status, "usage": usage})


def reported(calls: int, tokens: int, session: str = "other") -> tuple[str, Any]:
    used = {"calls": calls, "usage": {"input_tokens": tokens}, "unpriced": {"input_tokens": tokens}}
    return ("USAGE_REPORTED", {"session_id": session, "turn_id": "u", "models": {"m": used}})


def test_calls_and_tokens_are_summed_by_turn_and_session(journal: Any) -> None:
    rows = journal(
        *(
            invoked("t"),
            started("a"),
            ended("a", {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 4}),
        ),
        *(started("b"), ended("b", None, "failed"), ("NO_MORE_ACTIONS", {})),
        *(invoked("u"), started("c", "u"), ended("c", {"input_tokens": 1, "cost": 0.5})),
    )
    spending = spending_of(rows)
    turn, other, session = spending.turn("t"), spending.besides("t"), spending.session
    assert [(it.model_calls, it.tokens) for it in (turn, other, session)] == [(2, 7), (1, 1), (3, 8)]
    assert turn.models["m"].unpriced["input_tokens"] == 5
    assert (other.models["m"].usage["cost"], other.models["m"].unpriced["input_tokens"]) == (0.5, 0)
    assert spending.turn("nowhere").models == {}


def test_a_call_that_ended_well_and_does_not_say_what_it_used_is_named(journal: Any) -> None:
    rows = journal(invoked("t"), started("a"), ended("a", None), started("b"), ended("b", None, "cancelled"))
    assert spending_of(rows).turn("t").models["m"].uncounted == 1


def test_every_attempt_of_a_call_counts_and_nothing_after_its_end(journal: Any) -> None:
    rows = [
        invoked("t"),
        started("a"),
        ended("a", None, "interrupted"),
        started("a"),
        *[ended("a", {"input_tokens": 3})] * 2,
    ]
    spent = spending_of(journal(*rows)).turn("t")
    assert (spent.model_calls, spent.tokens) == (2, 3)


def test_of_what_a_turn_reports_the_last_counts(journal: Any) -> None:
    spending = spending_of(journal(invoked("t"), reported(1, 5), reported(3, 9), reported(1, 1, "third")))
    assert [(it.model_calls, it.tokens) for it in (spending.turn("t"), spending.session)] == [(4, 10)] * 2
    assert (spending.own("t").model_calls, spending.besides("t").model_calls) == (0, 0)


def test_time_is_that_of_the_attempts_and_not_of_what_is_between(journal: Any) -> None:
    suspended = ("TURN_SUSPENDED", {"turn_id": "t", "waits": []})
    granted = ("TOOL_APPROVAL_GRANTED", {"tool_call_id": "x"})
    rows = journal(invoked("t"), suspended, granted, invoked("t", 2), started("a"), ("NO_MORE_ACTIONS", {}))
    assert spending_of(rows, [0, 4, 50, 52, 53, 55]).turn("t").seconds == 7


def test_a_second_exchange_of_an_attempt_begins_no_other_one(journal: Any) -> None:
    rows = journal(invoked("t"), invoked("t"), ("NO_MORE_ACTIONS", {}))
    assert spending_of(rows, [0, 4, 9]).turn("t").seconds == 9


def test_a_dead_attempt_has_the_time_up_to_its_last_row(journal: Any) -> None:
    closed = [ended("a", None, "interrupted"), ("SESSION_ERROR", {"code": "interrupted", "turn_id": "t"})]
    rows = journal(invoked("t"), started("a"), ("TURN_SUBMITTED", {}), *closed, invoked("t", 2))
    assert spending_of(rows, [0, 6, 30, 50, 50, 55]).turn("t").seconds == 6


def test_a_clock_that_went_back_takes_no_time_away(journal: Any) -> None:
    rows = journal(invoked("t"), ("NO_MORE_ACTIONS", {}), invoked("u"), ("NO_MORE_ACTIONS", {}))
    assert spending_of(rows, [30, 10, 40, 45]).session.seconds == 5


def test_warnings_are_known_by_turn(journal: Any) -> None:
    warning = ("BUDGET_WARNING", {"turn_id": "t", "scope": "turn", "limit": "cost", "spent": 4, "allowed": 5})
    assert spending_of(journal(invoked("t"), warning)).warned("t") == {("turn", "cost")}


@pytest.mark.parametrize(
    "payload",
    [
        *(None, 5, [], {}, {"node_id": [], "kind": "model"}, {"node_id": "a", "usage": 5, "status": []}),
        *(
            {"models": 5},
            {"models": {"m": 5}},
            {"models": {"m": {"calls": "x", "usage": 3}}},
            {"turn_id": {}},
        ),
    ],
)
@pytest.mark.parametrize(
    "kind",
    ["INVOCATION_STARTED", "CALL_STARTED", "CALL_ENDED", "USAGE_REPORTED", "BUDGET_WARNING", "SESSION_ERROR"],
)
def test_no_payload_breaks_the_sums(journal: Any, kind: str, payload: Any) -> None:
    rows = journal(invoked("t"), started("a"), (kind, payload), ended("a", {"input_tokens": 1}))
    assert spending_of(rows).session.tokens in (0, 1)
