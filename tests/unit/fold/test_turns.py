from __future__ import annotations

from typing import Any

import pytest

from segue.events import EVENT_TYPES
from segue.fold import Turn, Turns


def turns_of(rows: list[Any]) -> Turns:
    turns = Turns()
    for row in rows:
        turns.apply(row)
    return turns


def invoked(turn: str = "t", **more: Any) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn, "reason": {"kind": "user_message", "input": "q"}, **more})


SUSPENDED = ("TURN_SUSPENDED", {"turn_id": "t", "waits": ["c"]})
DONE = ("NO_MORE_ACTIONS", {})
ERROR = ("ERROR", {"message": "boom"})


def died(code: str = "") -> tuple[str, Any]:
    return ("SESSION_ERROR", {"message": "gone", "code": code})


CANCELLED = ("TURN_CANCELLED", {"turn_id": "t"})


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], "running"),
        ([DONE], "completed"),
        ([ERROR], "running"),
        ([ERROR, DONE], "failed"),
        ([SUSPENDED], "suspended"),
        ([SUSPENDED, invoked(attempt=2)], "running"),
        ([ERROR, SUSPENDED, invoked(attempt=2), DONE], "completed"),
        ([SUSPENDED, died()], "suspended"),
        ([SUSPENDED, CANCELLED], "cancelled"),
        ([CANCELLED], "cancelled"),
        ([died()], "failed"),
        ([died("interrupted")], "interrupted"),
        ([died("interrupted"), CANCELLED], "cancelled"),
        ([died("interrupted"), invoked(attempt=2)], "running"),
        ([DONE, died("interrupted")], "completed"),
        ([DONE, CANCELLED], "completed"),
        ([CANCELLED, DONE], "cancelled"),
    ],
)
def test_a_turn_has_the_status_that_its_rows_give(journal: Any, rows: list[Any], status: str) -> None:
    last = turns_of(journal(invoked(), *rows)).last
    assert last is not None
    assert last.status == status


def test_a_turn_keeps_its_beginning_and_says_where_it_ended(journal: Any) -> None:
    rows = journal(invoked(source="cli", agent_id="main"), SUSPENDED, invoked(attempt=2, source="web"), DONE)
    assert turns_of(rows).all == [
        Turn(
            turn_id="t",
            status="completed",
            reason={"kind": "user_message", "input": "q"},
            source="cli",
            agent_id="main",
            attempt=2,
            started_seq=1,
            ended_seq=4,
            started_at="2026-01-01T00:00:01Z",
            ended_at="2026-01-01T00:00:04Z",
        )
    ]


def test_a_row_that_names_its_turn_ends_that_one(journal: Any) -> None:
    rows = journal(invoked("t"), SUSPENDED, invoked("u"), CANCELLED)
    assert [(turn.turn_id, turn.status) for turn in turns_of(rows).all] == [
        ("t", "cancelled"),
        ("u", "running"),
    ]


def test_a_suspended_turn_names_its_waits(journal: Any) -> None:
    turn = turns_of(journal(invoked(), SUSPENDED)).get("t")
    assert turn is not None
    assert turn.waits == ["c"]


def test_rows_before_any_turn_change_nothing(journal: Any) -> None:
    assert turns_of(journal(DONE, ERROR, died(), SUSPENDED, CANCELLED)).last is None


HOSTILE: list[Any] = [None, 5, "text", [], {}, [None], {"a": []}, True]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_payload_of_any_type_breaks_the_turns(journal: Any, kind: str) -> None:
    keys = ["turn_id", "invocation_id", "reason", "attempt", "waits", "code", "source", "tool_call_id"]
    payloads = [*HOSTILE, *[{"turn_id": "t", key: value} for key in keys for value in HOSTILE]]
    turns = turns_of(journal(invoked(), *[(kind, payload) for payload in payloads]))
    assert turns.all[0].turn_id == "t"
