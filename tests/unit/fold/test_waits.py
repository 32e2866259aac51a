from __future__ import annotations

from typing import Any

import pytest

from segue.events import EVENT_TYPES
from segue.fold import Wait, Waits


def waits_of(rows: list[Any]) -> Waits:
    waits = Waits()
    for row in rows:
        waits.apply(row)
    return waits


def open_ids(rows: list[Any]) -> list[tuple[str, str]]:
    return [(wait.kind, wait.id) for wait in waits_of(rows).open]


def invoked(turn: str = "t", kind: str = "user_message") -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn, "reason": {"kind": kind, "input": "q"}})


def tool(kind: str, call_id: str = "c", **more: Any) -> tuple[str, Any]:
    return (kind, {"tool_call_id": call_id, **more})


def asked(called_by: str = "", call_id: str = "c") -> list[tuple[str, Any]]:
    """A tool call and the request to approve it."""
    what = {"name": "pay", "arguments": {"eur": 5}, "called_by": called_by}
    return [tool("TOOL_CALL", call_id, **what), tool("TOOL_APPROVAL_REQUIRED", call_id, **what)]


QUESTION = (
    "QUESTION_ASKED",
    {"question_id": "q", "question": "Which?", "options": ["a", "b"], "called_by": "n"},
)
START = ("MESSAGE_START", {"message_id": "m"})
DIED = ("SESSION_ERROR", {"message": "gone", "code": "interrupted"})


def test_waits_say_what_they_wait_for_in_the_order_they_were_opened(journal: Any) -> None:
    rows = journal(invoked(), *asked(), QUESTION)
    assert waits_of(rows).open == [
        Wait(kind="approval", id="c", name="pay", arguments={"eur": 5}, seq=3, turn_id="t"),
        Wait(kind="question", id="q", name="Which?", options=["a", "b"], called_by="n", seq=4, turn_id="t"),
    ]


@pytest.mark.parametrize("called_by", ["", "n"])
@pytest.mark.parametrize(
    "closing",
    [
        tool("TOOL_APPROVAL_GRANTED"),
        tool("TOOL_APPROVAL_DENIED"),
        ("TURN_CANCELLED", {"turn_id": "t"}),
        ("NO_MORE_ACTIONS", {}),
    ],
)
def test_an_approval_waits_until_it_is_decided_or_its_turn_settles(
    journal: Any, called_by: str, closing: Any
) -> None:
    rows = journal(invoked(), *asked(called_by), closing)
    assert open_ids(rows[:-1]) == [("approval", "c")]
    assert open_ids(rows) == []


@pytest.mark.parametrize("called_by", ["", "n"])
@pytest.mark.parametrize("closing", [tool("TOOL_RESULT", result=None), tool("TOOL_STARTED")])
def test_an_approval_is_over_once_its_tool_runs(journal: Any, called_by: str, closing: Any) -> None:
    kind, payload = closing
    assert open_ids(journal(invoked(), *asked(called_by), (kind, {**payload, "called_by": called_by}))) == []


@pytest.mark.parametrize("going_on", [invoked("u"), START])
def test_an_approval_that_the_conversation_left_behind_is_no_wait(journal: Any, going_on: Any) -> None:
    assert open_ids(journal(invoked(), *asked(), going_on)) == []


@pytest.mark.parametrize("kind", ["approval_decision", "recovery"])
def test_an_approval_outlives_a_resumption(journal: Any, kind: str) -> None:
    assert open_ids(journal(invoked(), *asked(), DIED, invoked("t", kind))) == [("approval", "c")]


def test_a_new_message_of_the_user_leaves_waits_inside_calls_alone(journal: Any) -> None:
    assert open_ids(journal(invoked(), *asked("n"), invoked("u"))) == [("approval", "c")]


def test_waits_inside_a_call_end_with_it(journal: Any) -> None:
    ended = ("CALL_ENDED", {"node_id": "n", "status": "cancelled"})
    assert open_ids(journal(invoked(), *asked("n"), QUESTION, ended)) == []


def test_a_question_waits_for_its_answer(journal: Any) -> None:
    rows = journal(invoked(), QUESTION, ("QUESTION_ANSWERED", {"question_id": "q", "answer": "a"}))
    assert (open_ids(rows[:2]), open_ids(rows)) == ([("question", "q")], [])


def test_a_started_tool_is_no_wait_while_its_invocation_lives(journal: Any) -> None:
    assert open_ids(journal(invoked(), *asked(), tool("TOOL_STARTED"))) == []


def test_a_started_tool_whose_invocation_died_has_an_unknown_outcome(journal: Any) -> None:
    waits = waits_of(journal(invoked(), *asked(), tool("TOOL_STARTED"), DIED, invoked("t", "recovery")))
    wait = Wait(kind="unknown_outcome", id="c", name="pay", arguments={"eur": 5}, seq=4, turn_id="t")
    assert waits.open == [wait]
    assert waits.get("c") == wait


@pytest.mark.parametrize(
    "closing",
    [
        ("CALL_RESOLVED", {"call_id": "c", "action": "skip"}),
        tool("TOOL_RESULT", result=None),
        tool("TOOL_STARTED", attempt=2),
    ],
)
def test_an_unknown_outcome_ends_when_it_is_resolved_known_or_tried_again(journal: Any, closing: Any) -> None:
    assert open_ids(journal(invoked(), *asked(), tool("TOOL_STARTED"), DIED, closing)) == []


def test_an_unknown_outcome_outlives_the_turn(journal: Any) -> None:
    rows = journal(
        invoked(), *asked(), tool("TOOL_STARTED"), DIED, ("TURN_CANCELLED", {"turn_id": "t"}), invoked("u")
    )
    assert open_ids(rows) == [("unknown_outcome", "c")]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_payload_of_any_type_breaks_the_waits(journal: Any, kind: str) -> None:
    hostile: list[Any] = [None, 5, "text", [], {}, [None], {"a": []}, True]
    keys = [
        "tool_call_id",
        "question_id",
        "options",
        "called_by",
        "turn_id",
        "name",
        "call_id",
        "node_id",
        "status",
    ]
    payloads = [*hostile, *[{"tool_call_id": "c", key: value} for key in keys for value in hostile]]
    waits = waits_of(journal(invoked(), *[(kind, payload) for payload in payloads]))
    assert {type(wait) for wait in waits.open} <= {Wait}
