"""One turn of a handler: what is written, what is handed over, and how it ends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from handling import Desk, say

from segue import AgentApp, SessionContext, agentic_function, create_runtime, drive, events, session_context
from segue.errors import HandlerError, InvalidEvent, NotResumable, SessionBusy, TurnInProgress, UsageError
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session.ambient import current_session
from segue.session.db import SessionDB


async def hello(ctx: SessionContext) -> AsyncIterator[events.Event]:
    for event in say(f"You said {ctx.input}."):
        yield event


def test_a_turn_is_written_from_its_message_to_its_end(desk: Desk) -> None:
    driven = desk.run(hello, "hi")
    assert desk.types() == [
        "INVOCATION_STARTED",
        "MESSAGE_START",
        "MESSAGE_DELTA",
        "MESSAGE_END",
        "NO_MORE_ACTIONS",
    ]
    assert desk.told() == [("user", "hi"), ("assistant", "You said hi.")]
    assert (driven.status, driven.value, driven.session_id) == ("completed", "You said hi.", "s")


def test_every_row_is_handed_over_once_and_in_order(desk: Desk) -> None:
    first, second = desk.run(hello, "one"), desk.run(hello, "two")
    assert [*first.envelopes, *second.envelopes] == desk.rows()


def test_a_session_is_made_when_none_is_named(db: SessionDB) -> None:
    run = drive(hello, input="hi", db=db).run()
    assert (run.value, run.session_id.startswith("adhoc_"), run.turn_id) == (
        "You said hi.",
        True,
        db.turns(run.session_id).all[0].turn_id,
    )


def test_the_record_names_the_route(desk: Desk) -> None:
    app = AgentApp()
    app.agent_route("/")(hello)

    @app.agent_route("/other")
    async def other(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say("other"):
            yield event

    asyncio.run(_drained(drive(app, "s", path="/other", input="x", db=desk.db)))
    assert [started["agent_id"] for started in desk.payloads("INVOCATION_STARTED")] == ["/other"]
    assert desk.told()[-1] == ("assistant", "other")


async def _drained(driven: Any) -> list[Any]:
    return [envelope async for envelope in driven]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "/nowhere", "input": "x"}, "there is no route /nowhere; the routes are: /"),
        ({"input": "  "}, "the input is blank"),
        ({"session_id": None}, "drive needs an input for a new session"),
    ],
)
def test_a_turn_that_cannot_begin_says_why(db: SessionDB, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        drive(hello, **{"session_id": "s", "db": db, **options})
    assert not db.store.exists("s")


def test_a_turn_is_driven_once(desk: Desk) -> None:
    async def twice() -> None:
        driven = drive(hello, "s", input="x", db=desk.db)
        await _drained(driven)
        await _drained(driven)

    with pytest.raises(UsageError, match="driven already"):
        asyncio.run(twice())


# --- ends ---


def test_an_error_is_recorded_and_raised_after_the_rows(desk: Desk) -> None:
    async def broken(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id="m")
        raise ValueError("no luck")

    seen: list[str] = []

    async def driving() -> None:
        async for envelope in drive(broken, "s", input="x", db=desk.db):
            seen.append(envelope.type)

    with pytest.raises(ValueError, match="no luck"):
        asyncio.run(driving())
    assert seen[-2:] == desk.types()[-2:] == ["ERROR", "NO_MORE_ACTIONS"]
    assert (desk.payloads("ERROR"), desk.statuses()) == (
        [{"message": "no luck", "code": "ValueError"}],
        ["failed"],
    )


def test_a_handler_may_say_itself_that_it_is_done(desk: Desk) -> None:
    async def done(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say("x"):
            yield event
        yield events.NoMoreActions()

    desk.run(done, "hi")
    assert (desk.types().count("NO_MORE_ACTIONS"), desk.statuses()) == (1, ["completed"])


REFUSED = {
    "no event": ("text", "yielded str: that is no event of segue.events"),
    "a class": (events.MessageStart, "yielded the class MessageStart: that is no event"),
    "a row of Segue's": (events.TurnSuspended(turn_id="t"), "yielded TURN_SUSPENDED: only Segue writes that"),
    "a start": (events.ToolStarted(tool_call_id="c"), "yielded TOOL_STARTED: only Segue writes that"),
    "a decision": (events.ToolApprovalGranted(tool_call_id="c"), "TOOL_APPROVAL_GRANTED: only Segue"),
    "a row of a call": (events.MessageStart(message_id="m", called_by="n"), "MESSAGE_START with called_by"),
    "a result of nothing": (events.ToolResult(tool_call_id="c9", result=1), "no call has that id"),
}


@pytest.mark.parametrize(("event", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_the_handlers_to_say_fails_the_turn(desk: Desk, event: Any, words: str) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[Any]:
        yield event

    with pytest.raises(HandlerError, match=words):
        desk.run(handler, "x")
    assert desk.types() == ["INVOCATION_STARTED", "ERROR", "NO_MORE_ACTIONS"]
    assert desk.payloads("ERROR")[0]["code"] == "handler_error"


def test_an_event_with_a_wrong_field_fails_the_turn_and_names_it(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id=7)  # type: ignore[arg-type]

    with pytest.raises(InvalidEvent, match="message_id"):
        desk.run(handler, "x")
    assert desk.statuses() == ["failed"]


@pytest.mark.parametrize("after", [*say("late")[:1], events.NoMoreActions()], ids=["message", "end"])
def test_anything_after_the_end_is_an_error_of_the_handler(desk: Desk, after: events.Event) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.NoMoreActions()
        yield after

    with pytest.raises(HandlerError, match="after NO_MORE_ACTIONS"):
        desk.run(handler, "x")
    assert desk.types() == ["INVOCATION_STARTED", "ERROR", "NO_MORE_ACTIONS"]


def test_a_handlers_generator_is_closed_at_once(desk: Desk) -> None:
    closed: list[str] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[Any]:
        try:
            yield "nothing that is an event"
        finally:
            closed.append(current_session().session_id)  # type: ignore[union-attr]

    with pytest.raises(HandlerError):
        desk.run(handler, "x")
    assert closed == ["s"]


# --- leaving early, interleaving, contexts ---


async def endless(ctx: SessionContext) -> AsyncIterator[events.Event]:
    yield events.MessageStart(message_id="m")
    await asyncio.Event().wait()


async def test_leaving_the_loop_early_interrupts_the_turn(desk: Desk) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with drive(endless, "s", input="x", db=desk.db) as driven:
        async for envelope in driven:
            if envelope.type == "MESSAGE_START":
                break
    assert (driven.status, desk.types()[-1], current_session(), errors) == (
        "interrupted",
        "SESSION_ERROR",
        None,
        [],
    )
    assert desk.db.store.holder("s") is None


async def test_an_iterator_that_is_dropped_interrupts_the_turn_too(desk: Desk) -> None:
    async def take_one() -> None:
        async for _ in drive(endless, "s", input="x", db=desk.db):
            break

    await take_one()
    gc.collect()
    async with asyncio.timeout(10):
        while desk.statuses() != ["interrupted"]:
            await asyncio.sleep(0.01)
    assert desk.db.store.holder("s") is None


async def test_an_iterator_can_be_closed_from_another_task(desk: Desk) -> None:
    iterator: Any = aiter(drive(endless, "s", input="x", db=desk.db))
    await anext(iterator)
    await asyncio.create_task(iterator.aclose())
    assert desk.statuses() == ["interrupted"]


async def test_a_busy_session_is_told_and_nothing_is_written(desk: Desk) -> None:
    iterator: Any = aiter(drive(endless, "s", input="x", db=desk.db))
    while (await anext(iterator)).type != "MESSAGE_START":
        pass
    before = desk.rows()
    with pytest.raises(SessionBusy):
        await desk.drive(hello, "y")
    assert desk.rows() == before
    await iterator.aclose()


async def test_two_turns_in_one_task_stay_in_their_own_sessions(desk: Desk) -> None:
    async def counting(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for number in range(3):
            assert current_session().session_id == ctx.session_id  # type: ignore[union-attr]
            for event in say(f"{ctx.session_id}{number}", f"m{number}"):
                yield event

    one: Any = aiter(drive(counting, "a", input="x", db=desk.db))
    two: Any = aiter(drive(counting, "b", input="x", db=desk.db))
    open_ones = [one, two]
    while open_ones:
        for iterator in list(open_ones):
            if await anext(iterator, None) is None:
                open_ones.remove(iterator)
            assert current_session() is None
    said = {name: [text for role, text in desk.told(name) if role == "assistant"] for name in "ab"}
    assert said == {"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]}


async def test_a_handler_changes_no_context_but_its_own(desk: Desk) -> None:
    variable = contextvars.ContextVar("variable", default="outer")

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        variable.set("inner")
        for event in say(variable.get()):
            yield event

    await desk.drive(handler, "x")
    assert (variable.get(), desk.told()[-1]) == ("outer", ("assistant", "inner"))


async def test_a_session_that_is_open_here_is_not_driven(desk: Desk) -> None:
    with session_context("s", db=desk.db), pytest.raises(TurnInProgress):
        await desk.drive(hello, "x")


async def test_a_handler_may_drive_another_session(desk: Desk) -> None:
    async def outer(ctx: SessionContext) -> AsyncIterator[events.Event]:
        run = await drive(hello, "inner", input="from outside", db=desk.db).finish()
        for event in say(run.value):
            yield event

    await desk.drive(outer, "x")
    assert (desk.told()[-1], desk.told("inner")[0]) == (
        ("assistant", "You said from outside."),
        ("user", "from outside"),
    )


# --- agentic functions inside ---


@agentic_function
async def think(topic: str, runtime: Any = None) -> str:
    """Think about it."""
    thought: str = await runtime.aexec(f"Think about {topic}")
    return thought


def test_agentic_functions_share_the_journal_and_leave_the_conversation_alone(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say(await think(ctx.input)):
            yield event

    model = Scripted(["deep thought"])
    desk.run(handler, "life", model=model)
    assert desk.told() == [("user", "life"), ("assistant", "deep thought")]
    assert [(node.kind, node.status) for node in desk.db.journal("s").view(CallGraph).nodes.values()] == [
        ("function", "completed"),
        ("model", "completed"),
    ]
    assert model.requests[0].messages[-2:] == [
        {"role": "user", "content": "life"},
        {"role": "user", "content": "Think about life"},
    ]


def test_a_bare_model_call_in_a_handler_is_no_exchange(desk: Desk) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        runtime = create_runtime(Scripted(["bare"]))
        assert runtime is not None
        for event in say(await runtime.aexec("quietly")):
            yield event

    desk.run(handler, "x")
    assert desk.told() == [("user", "x"), ("assistant", "bare")]


# --- going on ---


def test_a_settled_turn_does_not_go_on(desk: Desk) -> None:
    desk.run(hello, "x")
    with pytest.raises(NotResumable, match="over"):
        desk.run(hello)


def test_a_turn_of_a_function_does_not_go_on_as_a_handlers(desk: Desk) -> None:
    with pytest.raises(SystemExit), session_context("s", db=desk.db) as session:
        session.writer.append({"kind": "function", "name": "f"})
        raise SystemExit
    with pytest.raises(NotResumable, match="not begun by a handler"):
        desk.run(hello)


def test_an_interrupted_turn_goes_on_with_its_input_and_the_next_attempt(desk: Desk) -> None:
    seen: list[Any] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        seen.append((ctx.attempt, ctx.input, [message["role"] for message in ctx.messages]))
        yield events.MessageStart(message_id=f"m{ctx.attempt}")
        yield events.MessageDelta(message_id=f"m{ctx.attempt}", delta={"type": "text", "text": "half"})
        if ctx.attempt == 1:
            raise SystemExit
        yield events.MessageEnd(message_id="m2")

    with pytest.raises(SystemExit):
        desk.run(handler, "x")
    desk.run(handler)
    assert seen == [(1, "x", ["user"]), (2, "x", ["user", "assistant", "user"])]
    assert [started["reason"] for started in desk.payloads("INVOCATION_STARTED")] == [
        {"kind": "user_message", "input": "x"},
        {"kind": "recovery"},
    ]
    assert desk.statuses() == ["completed"]
