"""Something new is said while the session waits: what waited is decided and answered, then the new turn begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from handling import Desk, calls, say

from segue import SessionContext, agentic_function, ask_user, chat_agent, events, session_context, tool
from segue.errors import AlreadyDecided, NotWaiting, Suspended
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.db import SessionDB
from segue.session.recovery import LEFT_BEHIND, SKIPPED
from segue.session.runtime import Runtime


class Letters:
    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(needs_approval=True)
        def send(to: str) -> str:
            self.sent.append(to)
            return "sent"

        @agentic_function
        def secretary(order: str, runtime: Any = None) -> str:
            """You write letters."""
            return str(runtime.exec(order, tools=[send]))

        self.send, self.secretary = send, secretary


@pytest.fixture
def letters() -> Letters:
    return Letters()


def closing_rows(desk: Desk) -> list[str]:
    """From the end of the turn that waited to the beginning of the next."""
    types = [row.type for row in desk.rows()]
    suspended = types.index("TURN_SUSPENDED")
    return types[suspended + 1 : types.index("INVOCATION_STARTED", suspended) + 1]


def test_each_wait_is_denied_and_answered_before_the_next_turn_begins(desk: Desk, letters: Letters) -> None:
    model = Scripted([calls(("send", {"to": "Ada"}), ("send", {"to": "Bo"})), "all right"])
    app = chat_agent(tools=[letters.send])
    one, two = desk.run(app, "write", model=model).waits
    desk.run(app, "no, do not", model=model)
    assert closing_rows(desk) == [
        *["TOOL_APPROVAL_DENIED"] * 2,
        *["TOOL_RESULT"] * 2,
        "TURN_CANCELLED",
        "INVOCATION_STARTED",
    ]
    assert [(row["tool_call_id"], row["reason"]) for row in desk.payloads("TOOL_APPROVAL_DENIED")] == [
        (one, "superseded"),
        (two, "superseded"),
    ]
    assert [content for role, content in desk.told() if role == "tool"] == [LEFT_BEHIND] * 2
    assert (letters.sent, desk.statuses()) == ([], ["cancelled", "completed"])


def test_one_that_was_approved_already_and_did_not_run_is_answered_too(desk: Desk, letters: Letters) -> None:
    model = Scripted([calls(("send", {"to": "Ada"}), ("send", {"to": "Bo"})), "all right"])
    app = chat_agent(tools=[letters.send])
    one, _ = desk.run(app, "write", model=model).waits
    desk.approve(one)
    desk.run(app, "no, do not", model=model)
    assert [content for role, content in desk.told() if role == "tool"] == [LEFT_BEHIND] * 2
    assert (letters.sent, len(desk.payloads("TOOL_APPROVAL_DENIED"))) == ([], 1)


def test_a_question_is_closed_and_takes_no_late_answer(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        said = ask_user("Which tone?") if ctx.input == "write" else "nothing asked"
        for event in say(said, f"m-{ctx.invocation_id}"):
            yield event

    [question_id] = desk.run(handler, "write").waits
    desk.run(handler, "leave it")
    assert closing_rows(desk) == ["TURN_CANCELLED", "INVOCATION_STARTED"]
    with pytest.raises((NotWaiting, AlreadyDecided)):
        decisions.answer(desk.db.journal("s"), question_id, "plain")
    assert (desk.waits(), desk.told()[-1]) == ([], ("assistant", "nothing asked"))


def test_an_approval_deep_in_a_sub_agent_is_denied_where_it_stands(desk: Desk, letters: Letters) -> None:
    model = Scripted(
        [calls(("secretary", {"order": "write"})), calls(("send", {"to": "Ada"})), "as you like"]
    )
    app = chat_agent(tools=[letters.secretary])
    [call_id] = desk.run(app, "go", model=model).waits
    desk.run(app, "stop that", model=model)
    nested, outer = desk.payloads("TOOL_RESULT")
    assert (nested["tool_call_id"], nested["result"], bool(nested["called_by"])) == (
        call_id,
        LEFT_BEHIND,
        True,
    )
    assert "called_by" not in outer
    sent = [(message["role"], message["content"]) for message in model.requests[2].messages]
    assert sent[-2:] == [("tool", outer["result"]), ("user", "stop that")]
    with pytest.raises(AlreadyDecided):
        desk.approve(call_id)
    assert letters.sent == []


def test_a_call_of_unknown_outcome_is_left_at_that(desk: Desk) -> None:
    @tool
    async def pay(eur: int) -> str:
        raise asyncio.CancelledError

    model = Scripted([calls(("pay", {"eur": 5})), "let us see"])
    app = chat_agent(tools=[pay])
    with pytest.raises(asyncio.CancelledError):
        desk.run(app, "pay", model=model)
    [call_id] = desk.run(app, model=model).waits
    assert desk.waits() == [("unknown_outcome", call_id)]
    desk.run(app, "what now?", model=model)
    assert desk.payloads("CALL_RESOLVED") == [{"call_id": call_id, "action": "skip", "by": "superseded"}]
    assert [content for role, content in desk.told() if role == "tool"] == [SKIPPED]


def test_calling_a_function_supersedes_what_another_waits_for(db: SessionDB, letters: Letters) -> None:
    model = Scripted([calls(("send", {"to": "Ada"})), "hello"])
    for order in ("write", "something else"):
        try:
            with session_context("s", db=db, runtime=Runtime(model)):
                assert letters.secretary(order) == "hello"
        except Suspended:
            assert order == "write"
    journal = db.journal("s")
    assert (decisions.open_waits(journal), letters.sent) == ([], [])
    assert [turn.status for turn in db.turns("s").all] == ["cancelled", "completed"]
    [denied] = [row.payload for row in db.read("s") if row.type == "TOOL_APPROVAL_DENIED"]
    assert denied["reason"] == "superseded"
    assert [message["role"] for message in model.requests[1].messages][-1] == "user"


def test_a_message_after_a_message_that_superseded_closes_nothing_twice(desk: Desk, letters: Letters) -> None:
    model = Scripted([calls(("send", {"to": "Ada"})), "one", "two"])
    app = chat_agent(tools=[letters.send])
    for words in ("write", "no", "again"):
        desk.run(app, words, model=model)
    assert (len(desk.payloads("TOOL_APPROVAL_DENIED")), desk.types().count("TURN_CANCELLED")) == (1, 1)
