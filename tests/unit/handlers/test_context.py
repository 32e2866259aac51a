"""What a handler is given: why it runs, what was said, and the tools it may execute."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from handling import Desk, say

from segue import AgentApp, ApprovalRequired, SessionContext, agentic_function, ask_user, drive, events, tool
from segue.errors import HandlerError, Suspended, ToolDenied, ToolFailed, UsageError
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.ambient import current_session


class Post:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.looked: list[str] = []
        self.tools = [self._send(), self.look, self.fail]

    def _send(self) -> Any:
        @tool(needs_approval=True)
        def send(to: str, text: str = "hello") -> str:
            """Send a letter."""
            self.sent.append(f"{to}: {text}")
            return f"sent to {to}"

        return send

    def look(self, name: str) -> str:
        """Find an address."""
        self.looked.append(name)
        return f"{name}, 1 Mill Lane"

    def fail(self) -> str:
        """Fail."""
        raise ValueError("no luck")

    def app(self, handler: Callable[[SessionContext], AsyncIterator[Any]]) -> AgentApp:
        app = AgentApp(tools=self.tools)
        app.agent_route("/")(handler)
        return app


@pytest.fixture
def post() -> Post:
    return Post()


# --- why ---


def test_a_user_message_has_an_input_and_no_decision(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        with pytest.raises(TypeError, match="approval_decision"):
            _ = ctx.decision
        seen.append((ctx.reason, ctx.input, ctx.session_id, ctx.attempt, ctx.pending_tool_call))
        seen.append(ctx.invocation_id == ctx.transcript[-1].payload["invocation_id"])
        yield events.NoMoreActions()

    desk.run(handler, {"order": [1]})
    reason = {"kind": "user_message", "input": {"order": [1]}}
    assert seen == [(reason, {"order": [1]}, "s", 1, None), True]


def test_an_approval_decision_has_a_decision_and_no_input(desk: Desk, post: Post) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        if ctx.attempt == 1:
            ctx.request_approval("send", {"to": "Ada"})
        with pytest.raises(TypeError, match="user_message"):
            _ = ctx.input
        seen.append((ctx.decision, ctx.reason["kind"], ctx.pending_tool_call))
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    desk.approve(approver="me")
    desk.run(post.app(handler))
    [(decision, kind, pending)] = seen
    assert (decision, kind) == ({"approved": True, "approver": "me"}, "approval_decision")
    assert {key: pending[key] for key in ("name", "arguments")} == {
        "name": "send",
        "arguments": {"to": "Ada", "text": "hello"},
    }


# --- what was said ---


def test_messages_have_the_current_one_and_stay_as_they_were(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        seen.append(ctx.messages)
        for event in say("later"):
            yield event
        ctx.messages[0]["content"] = "changed"
        seen.append(ctx.messages)

    desk.run(handler, "x")
    assert seen == [[{"role": "user", "content": "x"}]] * 2


def test_the_transcript_ends_with_this_invocation(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say("before it is read"):
            yield event
        seen.append(ctx.transcript)

    desk.run(handler, "x")
    assert seen == [desk.rows()[:2]]


def test_a_compaction_leaves_the_context_as_it_was_and_changes_the_conversation(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        short = [{"role": "user", "content": "short"}]
        yield events.TranscriptCompacted(messages=short, replaces_up_to_seq=ctx.transcript[-1].seq)
        seen.append(ctx.messages)
        yield events.TranscriptCompacted(messages=[], replaces_up_to_seq=ctx.transcript[-1].seq)

    desk.run(handler, "long")
    assert seen == [[{"role": "user", "content": "long"}]]
    assert (desk.told(), len(desk.payloads("TRANSCRIPT_COMPACTED"))) == ([("user", "short")], 1)


# --- executing tools ---


def test_a_tool_is_in_the_record_before_and_after_it_runs(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say(await ctx.execute("look", name="Ada")):
            yield event

    desk.run(post.app(handler), "x")
    assert desk.types()[1:4] == ["TOOL_CALL", "TOOL_STARTED", "TOOL_RESULT"]
    assert (desk.told()[-1], post.looked) == (("assistant", "Ada, 1 Mill Lane"), ["Ada"])


def test_a_yielded_call_is_executed_under_its_id_and_its_result_may_be_said_again(
    desk: Desk, post: Post
) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id="m")
        yield events.ToolCall(tool_call_id="c", name="look", arguments={"name": "Ada"})
        yield events.MessageEnd(message_id="m")
        result = await ctx.execute("look", call_id="c", name="Ada")
        yield events.ToolResult(tool_call_id="c", result=result)

    desk.run(post.app(handler), "x")
    assert (desk.types().count("TOOL_CALL"), desk.types().count("TOOL_RESULT")) == (1, 1)
    assert desk.messages()[-1] == {"role": "tool", "tool_call_id": "c", "content": "Ada, 1 Mill Lane"}


def test_another_result_than_the_recorded_one_is_an_error(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        await ctx.execute("look", call_id="c", name="Ada")
        yield events.ToolResult(tool_call_id="c", result="better")

    with pytest.raises(HandlerError, match=r"ctx\.execute writes it"):
        desk.run(post.app(handler), "x")


def test_what_goes_wrong_is_the_result_and_is_raised(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for name, arguments in (("fail", {}), ("look", {"nam": 1}), ("nothing", {})):
            with contextlib.suppress(ToolFailed):
                await ctx.execute(name, **arguments)
                raise AssertionError(name)
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    results = [
        (result["result"].splitlines()[0], result["is_error"]) for result in desk.payloads("TOOL_RESULT")
    ]
    assert results[0][0] == "ValueError: no luck"
    assert "look" in results[1][0]
    assert results[2][0].startswith("there is no tool 'nothing'")
    assert ({error for _, error in results}, desk.statuses()) == ({True}, ["completed"])


def test_sync_tools_run_off_the_loop_in_the_session(desk: Desk) -> None:
    def where() -> str:
        """Say where it runs."""
        return f"{current_session().session_id} {threading.current_thread() is threading.main_thread()}"  # type: ignore[union-attr]

    app = AgentApp(tools=[where])

    @app.agent_route("/")
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say(await ctx.execute("where")):
            yield event

    desk.run(app, "x")
    assert desk.told()[-1] == ("assistant", "s False")


def test_one_call_is_not_executed_twice_at_once(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        both = (ctx.execute("look", call_id="c", name="Ada") for _ in range(2))
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [str, UsageError]
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    assert post.looked == ["Ada"]


# --- approvals ---


async def by_hand(ctx: SessionContext) -> AsyncIterator[events.Event]:
    """Written as if nothing ever stopped."""
    address = await ctx.execute("look", name="Ada")
    sent = await ctx.execute("send", to="Ada")
    for event in say(f"{sent} at {address}", f"m{ctx.attempt}"):
        yield event


def test_a_gated_call_suspends_and_an_approved_one_runs_once_with_what_was_done_before(
    desk: Desk, post: Post
) -> None:
    driven = desk.run(post.app(by_hand), "x")
    assert (driven.status, driven.waits, post.sent) == ("suspended", [desk.waits()[0][1]], [])
    assert desk.types()[-3:] == ["TOOL_CALL", "TOOL_APPROVAL_REQUIRED", "TURN_SUSPENDED"]
    desk.approve()
    driven = desk.run(post.app(by_hand))
    assert (driven.value, post.sent, post.looked) == (
        "sent to Ada at Ada, 1 Mill Lane",
        ["Ada: hello"],
        ["Ada"],
    )
    assert [started.get("attempt", 1) for started in desk.payloads("INVOCATION_STARTED")] == [1, 2]


def test_the_signal_names_the_call(desk: Desk, post: Post) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        try:
            await ctx.execute("send", to="Ada")
        except ApprovalRequired as signal:
            seen.append((signal.name, signal.arguments, signal.tool_call_id, signal.wait_ids))
            raise
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    call_id = desk.waits()[0][1]
    assert seen == [("send", {"to": "Ada", "text": "hello"}, call_id, [call_id])]


def test_a_swallowed_signal_suspends_all_the_same(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        with contextlib.suppress(BaseException):
            await ctx.execute("send", to="Ada")
        if ctx.attempt > 1:
            yield events.NoMoreActions()

    assert desk.run(post.app(handler), "x").status == "suspended"


def test_an_event_after_the_suspension_is_an_error_and_the_turn_still_waits(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        with contextlib.suppress(BaseException):
            await ctx.execute("send", to="Ada")
        yield events.MessageStart(message_id="m")

    with pytest.raises(HandlerError, match="MESSAGE_START after the turn was suspended"):
        desk.run(post.app(handler), "x")
    assert (desk.statuses(), desk.types()[-1], len(desk.waits())) == (["suspended"], "TURN_SUSPENDED", 1)


@pytest.mark.parametrize("how", ["gather"])
def test_calls_that_run_together_are_all_asked_for_and_free_ones_run_once(
    desk: Desk, post: Post, how: str
) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        made = [ctx.execute("look", name="Ada"), ctx.execute("send", to="Ada"), ctx.execute("send", to="Bo")]
        if how == "gather":
            await asyncio.gather(*made)
        else:
            async with asyncio.TaskGroup() as group:
                for call in made:
                    group.create_task(call)
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    while desk.statuses() == ["suspended"]:
        for _, call_id in desk.waits():
            desk.approve(call_id)
        desk.run(post.app(handler))
    assert (sorted(post.sent), post.looked) == (["Ada: hello", "Bo: hello"], ["Ada"])


def test_a_denied_call_raises_and_the_model_gets_the_words(desk: Desk, post: Post) -> None:
    seen: list[str] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        try:
            await ctx.execute("send", to="Ada")
        except ToolDenied as denied:
            seen.append(str(denied))
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    desk.deny(reason="Not today.")
    desk.run(post.app(handler))
    words = "The reviewer denied this call; it did not run. Not today."
    assert (seen, post.sent, desk.messages()[-1]["content"]) == ([words], [], words)


def test_a_denial_that_the_handler_passes_over_is_told_before_it_speaks(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        if ctx.attempt == 1:
            await ctx.execute("send", call_id="c", to="Ada")
        for event in say("Then not."):
            yield event

    desk.run(post.app(handler), "x")
    desk.deny(reason="No.")
    desk.run(post.app(handler))
    assert [message["role"] for message in desk.messages()] == ["user", "assistant", "tool", "assistant"]
    assert desk.messages()[2]["content"].endswith("it did not run. No.")


def test_edited_arguments_run_and_the_result_tells_so(desk: Desk, post: Post) -> None:
    desk.run(post.app(by_hand), "x")
    desk.approve(arguments={"to": "Bo", "text": "hi"})
    desk.run(post.app(by_hand))
    assert post.sent == ["Bo: hi"]
    assert "The reviewer changed the arguments to" in desk.payloads("TOOL_RESULT")[-1]["result"]


def test_an_approval_of_other_arguments_opens_nothing(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        await ctx.execute("send", call_id="c", to="Ada" if ctx.attempt == 1 else "Eve")
        yield events.NoMoreActions()

    desk.run(post.app(handler), "x")
    desk.approve()
    driven = desk.run(post.app(handler))
    assert (driven.status, post.sent) == ("suspended", [])
    assert [asked["arguments"]["to"] for asked in desk.payloads("TOOL_APPROVAL_REQUIRED")] == ["Ada", "Eve"]


def test_an_expired_grant_opens_nothing(desk: Desk, post: Post) -> None:
    desk.run(post.app(by_hand), "x")
    desk.approve(expires_at="2020-01-01T00:00:00Z")
    assert (desk.run(post.app(by_hand)).status, post.sent) == ("suspended", [])
    desk.approve()
    desk.run(post.app(by_hand))
    assert post.sent == ["Ada: hello"]


def test_a_grant_is_used_up_by_its_call_also_when_the_id_is_used_again(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for number in (1, 2):
            yield events.MessageStart(message_id=f"m{ctx.attempt}{number}")
            if ctx.attempt == 1 or number == 2:
                yield events.ToolCall(tool_call_id="c", name="send", arguments={"to": "Ada"})
            yield events.MessageEnd(message_id=f"m{ctx.attempt}{number}")
            await ctx.execute("send", call_id="c", to="Ada")

    desk.run(post.app(handler), "x")
    desk.approve()
    driven = desk.run(post.app(handler))
    assert (driven.status, post.sent) == ("suspended", ["Ada: hello"])


def test_something_that_is_no_tool_can_be_approved_and_the_model_is_told(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        if ctx.attempt == 1:
            ctx.request_approval("open the gates", {"until": "noon"})
        for event in say("They are open." if ctx.decision["approved"] else "They stay shut."):
            yield event

    desk.run(handler, "x")
    desk.approve()
    desk.run(handler)
    assert desk.told()[2:] == [("tool", "The reviewer approved this."), ("assistant", "They are open.")]


def test_a_handler_may_ask_for_an_approval_by_an_event(desk: Desk, post: Post) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        if ctx.attempt == 1:
            yield events.ToolApprovalRequired(tool_call_id="c", name="send", arguments={"to": "Ada"})
            raise AssertionError("it is left at that")
        await ctx.execute("send", call_id="c", to="Ada")

    desk.run(post.app(handler), "x")
    assert desk.waits() == [("approval", "c")]
    desk.approve()
    desk.run(post.app(handler))
    assert (post.sent, desk.statuses()) == (["Ada: hello"], ["completed"])


def test_a_turn_that_still_waits_does_not_go_on(desk: Desk, post: Post) -> None:
    desk.run(post.app(by_hand), "x")
    before = desk.rows()
    assert desk.run(post.app(by_hand)).waits == [desk.waits()[0][1]]
    assert desk.rows() == before


# --- waits of what runs inside ---


def test_a_question_in_a_handler_is_answered_and_the_handler_gets_it(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say(f"{ctx.input}: {ask_user('Which?')}", f"m{ctx.attempt}"):
            yield event

    desk.run(handler, "x")
    [(kind, question)] = desk.waits()
    decisions.answer(desk.db.journal("s"), question, "the left one")
    desk.run(handler)
    assert (kind, desk.told()[-1]) == ("question", ("assistant", "x: the left one"))


def test_an_approval_deep_in_a_tool_is_found_again(desk: Desk, post: Post) -> None:
    [send, *_] = post.tools

    @agentic_function
    def clerk(order: str, runtime: Any = None) -> str:
        """Work for the post."""
        answer: str = runtime.exec(order, tools=[send])
        return answer

    app = AgentApp(tools=[clerk])

    @app.agent_route("/")
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say(await ctx.execute("clerk", order="write"), f"m{ctx.attempt}"):
            yield event

    asked = {"tool_calls": [{"name": "send", "arguments": {"to": "Ada"}}]}
    desk.run(app, "x", model=Scripted([asked]))
    desk.approve()
    desk.run(app, model=Scripted(["It is sent."]))
    assert (desk.told()[-1], post.sent) == (("assistant", "It is sent."), ["Ada: hello"])


def test_steps_of_functions_are_answered_when_the_handler_is_invoked_again(desk: Desk, post: Post) -> None:
    @agentic_function
    async def think(topic: str, runtime: Any = None) -> str:
        """Think."""
        thought: str = await runtime.aexec(topic)
        return thought

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        thought = await think("once")
        if ctx.attempt == 1:
            await think("only the first time")
        await ctx.execute("send", to=thought)
        for event in say(thought, f"m{ctx.attempt}"):
            yield event

    desk.run(post.app(handler), "x", model=Scripted(["Ada", "nobody"]))
    desk.approve()
    desk.run(post.app(handler), model=Scripted([]))
    assert (post.sent, desk.told()[-1]) == (["Ada: hello"], ("assistant", "Ada"))


async def test_finish_raises_the_signal_of_a_suspended_turn(desk: Desk, post: Post) -> None:
    with pytest.raises(Suspended):
        await drive(post.app(by_hand), "s", input="x", db=desk.db).finish()
