"""Scenarios of kind 1 through whole turns: calls and results stay paired, whoever stops, decides or speaks meanwhile.

The folds of the given journals alone are in tests/unit/fold.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from handling import Desk, calls

from segue import SessionContext, chat_agent, events, tool
from segue.errors import AlreadyDecided, HandlerError, NotWaiting
from segue.fold import provider_messages
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.cancelling import cancel
from segue.session.recovery import LEFT_BEHIND, SKIPPED
from segue.tools.digest import digest_of

DENIED = "The reviewer denied this call; it did not run."


class Works:
    """Tools that note what ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.asked = 0
        gated = tool(needs_approval=True)
        self.tools = [gated(self.pay), gated(self.move), self.look]

    def pay(self, eur: int) -> str:
        self.ran.append(("pay", eur))
        return f"paid {eur}"

    def move(self, path: str) -> str:
        self.ran.append(("move", path))
        return "moved"

    def look(self) -> str:
        self.ran.append("look")
        return "x y"

    @property
    def app(self) -> Any:
        return chat_agent(tools=self.tools)


@pytest.fixture
def works() -> Works:
    return Works()


def sendable(desk: Desk) -> list[tuple[str, Any]]:
    """The conversation as a provider would get it."""
    return [(message["role"], message["content"]) for message in provider_messages(desk.messages())]


def results(desk: Desk) -> list[str]:
    return [content for role, content in sendable(desk) if role == "tool"]


def sent(model: Scripted, at: int = -1) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in model.requests[at].messages]


def test_b001_typing_again_after_a_tool_was_stopped(desk: Desk) -> None:
    @tool
    async def bump() -> str:
        raise asyncio.CancelledError

    model = Scripted([calls(("bump", {})), "done"])
    app = chat_agent(tools=[bump])
    with pytest.raises(asyncio.CancelledError):
        desk.run(app, "bump the version", model=model)
    assert desk.statuses() == ["interrupted"]
    assert desk.run(app, "try again", model=model).value == "done"
    assert sent(model)[0] == ("user", "bump the version")
    assert [role for role, _ in sent(model)] == ["user", "assistant", "tool", "user"]
    assert sent(model)[2] == ("tool", SKIPPED)


def test_b003_a_result_of_no_call_is_refused_and_one_of_an_earlier_turn_is_paired(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        if ctx.input == "call":
            yield events.ToolCall(tool_call_id="c1", name="slow", arguments={})
        else:
            yield events.ToolResult(tool_call_id=ctx.input, result="late")

    desk.run(handler, "call")
    desk.run(handler, "c1")
    assert desk.told()[:3] == [("user", "call"), ("assistant", ""), ("tool", "late")]
    before = desk.types().count("TOOL_RESULT")
    with pytest.raises(HandlerError, match="no call has that id"):
        desk.run(handler, "cX")
    assert desk.types().count("TOOL_RESULT") == before
    assert desk.run(handler, "c1") is not None, "said again, it is no error"


def test_b005_a_call_id_that_a_provider_uses_again_is_another_call(desk: Desk, works: Works) -> None:
    def asks(eur: int) -> dict[str, Any]:
        return {"tool_calls": [{"id": "pay:0", "name": "pay", "arguments": {"eur": eur}}]}

    model = Scripted([asks(1), "one", asks(2), "two"])
    desk.run(works.app, "pay one", model=model)
    desk.approve()
    desk.run(works.app, model=model)
    desk.run(works.app, "pay two", model=model)
    assert (works.ran, len(desk.waits())) == ([("pay", 1)], 1), "the grant was the first call's"
    desk.deny(reason="too much")
    desk.run(works.app, model=model)
    assert (works.ran, results(desk)) == ([("pay", 1)], ["paid 1", f"{DENIED} too much"])


def test_b006_results_stand_in_the_order_of_the_calls_whatever_the_order_they_came_in(desk: Desk) -> None:
    fast_is_done = threading.Event()

    def slow() -> str:
        assert fast_is_done.wait(30)
        return "slow"

    async def fast() -> str:
        asyncio.get_running_loop().call_later(0.05, fast_is_done.set)
        return "fast"

    model = Scripted([calls(("slow", {}), ("fast", {})), "both"])
    desk.run(chat_agent(tools=[slow, fast]), "both please", model=model)
    assert results(desk) == ["slow", "fast"]
    assert sent(model)[-2:] == [("tool", "slow"), ("tool", "fast")]


def test_b006_a_user_message_between_results_comes_after_them(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for name in ("slow", "fast"):
            yield events.ToolCall(tool_call_id=name, name=name, arguments={})
        yield events.ToolResult(tool_call_id="fast", result="fast")
        yield events.MessageStart(message_id="u", role="user")
        yield events.MessageDelta(message_id="u", delta={"type": "text", "text": "are you there?"})
        yield events.MessageEnd(message_id="u")
        yield events.ToolResult(tool_call_id="slow", result="slow")

    desk.run(handler, "both please")
    assert sendable(desk)[-3:] == [("tool", "slow"), ("tool", "fast"), ("user", "are you there?")]


def test_b007_a_free_call_beside_a_gated_one_runs_once_before_the_turn_waits(
    desk: Desk, works: Works
) -> None:
    model = Scripted([calls(("pay", {"eur": 5}), ("look", {})), "done"])
    desk.run(works.app, "go", model=model)
    assert (works.ran, desk.types()[-1]) == (["look"], "TURN_SUSPENDED")
    assert [row["result"] for row in desk.payloads("TOOL_RESULT")] == ["x y"]
    desk.approve()
    assert desk.run(works.app, model=model).value == "done"
    assert (works.ran, sent(model)[-2:]) == (
        ["look", ("pay", 5)],
        [("tool", "paid 5"), ("tool", "x y")],
    )
    assert len(model.requests) == 2


def test_b008_a_denial_is_answered_in_the_reviewers_words_and_its_siblings_go_on(
    desk: Desk, works: Works
) -> None:
    model = Scripted([calls(("pay", {"eur": 1}), ("move", {"path": "b"}), ("look", {})), "done"])
    driven = desk.run(works.app, "go", model=model)
    pay, move = driven.waits
    desk.deny(pay, reason="wrong folder")
    assert desk.waits() == [("approval", move)]
    driven = desk.run(works.app, model=model)
    assert (driven.status, driven.waits, works.ran, len(model.requests)) == ("suspended", [move], ["look"], 1)
    with pytest.raises(AlreadyDecided, match="denied"):
        desk.approve(pay)
    desk.approve(move)
    desk.run(works.app, model=model)
    assert works.ran == ["look", ("move", "b")]
    assert sent(model)[-3:] == [("tool", f"{DENIED} wrong folder"), ("tool", "moved"), ("tool", "x y")]


def test_b009_a_decision_is_for_one_call_with_its_arguments(desk: Desk, works: Works) -> None:
    model = Scripted([calls(("pay", {"eur": 1}), ("pay", {"eur": 900})), "done"])
    one, many = desk.run(works.app, "pay", model=model).waits
    before = desk.rows()
    [message_id] = {row["message_id"] for row in desk.payloads("MESSAGE_START")}
    for wrong in ("nope", message_id, ""):
        with pytest.raises(NotWaiting):
            decisions.approve(desk.db.journal("s"), wrong)
        with pytest.raises(NotWaiting):
            decisions.deny(desk.db.journal("s"), wrong)
    assert desk.rows() == before
    desk.approve(many)
    desk.deny(one, reason="no")
    desk.run(works.app, model=model)
    assert works.ran == [("pay", 900)]


def test_b009_a_grant_of_other_arguments_opens_nothing(desk: Desk, works: Works) -> None:
    model = Scripted([calls(("pay", {"eur": 1})), "done"])
    [call_id] = desk.run(works.app, "pay", model=model).waits
    forged = events.ToolApprovalGranted(tool_call_id=call_id, digest=digest_of("pay", {"eur": 900}))
    desk.db.journal("s").append(forged)
    driven = desk.run(works.app, model=model)
    assert (works.ran, driven.status) == ([], "suspended")


def test_b009_edited_arguments_are_a_fact_of_their_own(desk: Desk, works: Works) -> None:
    model = Scripted([calls(("pay", {"eur": 900})), "done"])
    desk.run(works.app, "pay", model=model)
    desk.approve(arguments={"eur": 9})
    desk.run(works.app, model=model)
    assert (works.ran, desk.payloads("TOOL_CALL")[0]["arguments"]) == ([("pay", 9)], {"eur": 900})
    assert desk.payloads("TOOL_APPROVAL_GRANTED")[0]["arguments"] == {"eur": 9}


@pytest.mark.parametrize("words", ["yes do it", "what is the weather?"])
def test_b011_new_words_are_no_grant_and_close_what_waits(desk: Desk, works: Works, words: str) -> None:
    model = Scripted([calls(("pay", {"eur": 5})), "as you like"])
    [call_id] = desk.run(works.app, "pay", model=model).waits
    assert desk.run(works.app, words, model=model).value == "as you like"
    assert sent(model)[1:] == [("assistant", ""), ("tool", LEFT_BEHIND), ("user", words)]
    assert desk.payloads("TOOL_APPROVAL_DENIED") == [{"tool_call_id": call_id, "reason": "superseded"}]
    with pytest.raises(AlreadyDecided, match="denied"):
        desk.approve(call_id)
    assert (works.ran, desk.waits(), desk.statuses()) == ([], [], ["cancelled", "completed"])


def test_b011_a_cancelled_turn_takes_no_late_grant(desk: Desk, works: Works) -> None:
    model = Scripted([calls(("pay", {"eur": 5})), "what next?"])
    [call_id] = desk.run(works.app, "pay", model=model).waits
    cancel(desk.db.journal("s"))
    with pytest.raises(AlreadyDecided, match="denied"):
        desk.approve(call_id)
    desk.run(works.app, "hello?", model=model)
    assert (works.ran, [role for role, _ in sent(model)]) == ([], ["user", "assistant", "tool", "user"])


def test_b011_what_waits_is_listed_from_the_journal_alone(desk: Desk, works: Works) -> None:
    desk.run(works.app, "pay", model=Scripted([calls(("pay", {"eur": 5}))]))
    [wait] = decisions.open_waits(desk.db.journal("s"))
    assert (wait.kind, wait.name, wait.arguments) == ("approval", "pay", {"eur": 5})
