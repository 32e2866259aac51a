"""A turn is cancelled from outside: whatever it is at, it ends as cancelled, nothing runs on, the next one works."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from handling import Desk

import segue
from segue import AgentApp, SessionContext, agentic_function, chat_agent, events, tool
from segue.errors import Cancelled, ModelRateLimited, NotWaiting, Suspended
from segue.events.facts import CancelRequested
from segue.handlers.drive import drive
from segue.models.scripted import Scripted
from segue.session import decisions, tailing
from segue.session.cancelling import cancel
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.session.waits import ask_user


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "EVERY", 0.01)


@pytest.fixture
def desk(db: SessionDB) -> Desk:
    return Desk(db)


class Busy:
    """What a turn is at when it is cancelled: `reached` is set then."""

    def __init__(self) -> None:
        self.reached, self.left = threading.Event(), threading.Event()
        self.ends: list[str] = []

    async def wait(self) -> None:
        self.reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ends.append("left")

    def wait_sync(self) -> None:
        self.reached.set()
        self.left.wait()
        self.ends.append("left")


@pytest.fixture
def busy() -> Busy:
    return Busy()


def cancelled_meanwhile(db: SessionDB, busy: Busy, run: Callable[[], Any]) -> None:
    """Run it, and cancel it from another thread once it is where it waits."""

    def other() -> None:
        busy.reached.wait()
        cancel(db.journal("s"), reason="enough")
        busy.left.set()

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(Cancelled):
        run()
    thread.join()


def is_over(desk: Desk) -> None:
    """The turn is cancelled, each call in the record has an end, and the next turn works."""
    assert desk.statuses() == ["cancelled"]
    assert desk.rows()[-1].type == "TURN_CANCELLED"
    assert desk.payloads("TURN_CANCELLED")[0]["reason"] == "enough"
    graph = desk.db.journal("s").view(segue.fold.CallGraph)
    assert [node.status for node in graph.nodes.values() if node.status == "running"] == []
    calls, results = (
        {row["tool_call_id"] for row in desk.payloads(kind)} for kind in ("TOOL_CALL", "TOOL_RESULT")
    )
    assert calls == results
    assert desk.db.store.holder("s") is None
    with session_context("s", db=desk.db, runtime=Runtime(Scripted(["fine"]))) as session:
        assert session.runtime is not None
        assert session.runtime.exec("And now?") == "fine"


def test_a_handler_that_waits(db: SessionDB, desk: Desk, busy: Busy) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id="m")
        yield events.MessageDelta(message_id="m", delta={"type": "text", "text": "so far"})
        await busy.wait()

    cancelled_meanwhile(db, busy, lambda: desk.run(handler, "x"))
    assert busy.ends == ["left"]
    assert "so far" in str(desk.told())
    is_over(desk)


def test_an_async_tool(db: SessionDB, desk: Desk, busy: Busy) -> None:
    @tool
    async def look() -> str:
        """Look."""
        await busy.wait()
        return "never"

    agent = chat_agent(Scripted([{"tool_calls": [{"name": "look", "arguments": {}}]}]), tools=[look])
    cancelled_meanwhile(db, busy, lambda: desk.run(agent, "x"))
    assert busy.ends == ["left"]
    assert desk.payloads("TOOL_RESULT")[0]["is_error"] is True
    is_over(desk)


def test_a_sync_tool_comes_to_its_end_and_is_recorded(db: SessionDB, desk: Desk, busy: Busy) -> None:
    @tool
    def look() -> str:
        """Look."""
        busy.wait_sync()
        return "seen"

    agent = chat_agent(Scripted([{"tool_calls": [{"name": "look", "arguments": {}}]}]), tools=[look])
    cancelled_meanwhile(db, busy, lambda: desk.run(agent, "x"))
    assert (busy.ends, [row["result"] for row in desk.payloads("TOOL_RESULT")]) == (["left"], ["seen"])
    is_over(desk)


class Slow(Scripted):
    """Streams a word, then nothing more."""

    def __init__(self, busy: Busy) -> None:
        super().__init__(["word"])
        self.busy = busy

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for chunk in super().stream(request):
            yield chunk
            await self.busy.wait()


def test_a_model_that_streams(db: SessionDB, desk: Desk, busy: Busy) -> None:
    cancelled_meanwhile(db, busy, lambda: desk.run(chat_agent(Slow(busy)), "x"))
    assert busy.ends == ["left"]
    is_over(desk)


class Failing(Scripted):
    """Is overloaded, and asks for a long pause."""

    def __init__(self, busy: Busy) -> None:
        super().__init__(["never"])
        self.busy = busy

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        self.busy.reached.set()
        raise ModelRateLimited("slow down", retry_after=100)
        yield


def test_a_pause_before_the_model_is_asked_again(db: SessionDB, desk: Desk, busy: Busy) -> None:
    cancelled_meanwhile(db, busy, lambda: desk.run(chat_agent(Failing(busy)), "x"))
    is_over(desk)


def test_a_function_whose_tool_runs(db: SessionDB, desk: Desk, busy: Busy) -> None:
    @tool
    def look() -> str:
        """Look."""
        busy.wait_sync()
        return "seen"

    @agentic_function
    def looks(runtime: Any = None) -> str:
        """Look."""
        return str(runtime.exec("look", tools=[look]))

    model = Scripted([{"tool_calls": [{"name": "look", "arguments": {}}]}, "never asked"])
    cancelled_meanwhile(db, busy, lambda: looks.run(session_id="s", runtime=Runtime(model)))
    assert (busy.ends, len(model.requests)) == (["left"], 1)
    assert [row["result"] for row in desk.payloads("TOOL_RESULT")] == ["seen"]
    is_over(desk)


@agentic_function
def asks_inside(runtime: Any = None) -> str:
    """Ask."""
    with contextlib.suppress(BaseException):
        runtime.exec("one")
    return str(runtime.exec("two"))


@agentic_function
def outer(runtime: Any = None) -> str:
    """Outer."""
    return asks_inside()


def test_a_nested_function_that_swallows_it(db: SessionDB, desk: Desk, busy: Busy) -> None:
    model = Slow(busy)
    cancelled_meanwhile(db, busy, lambda: outer.run(session_id="s", runtime=Runtime(model)))
    assert (busy.ends, len(model.requests)) == (["left"], 1)
    is_over(desk)


def test_a_program_that_says_it_is_done_all_the_same(db: SessionDB, desk: Desk, busy: Busy) -> None:
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        with contextlib.suppress(BaseException):
            await busy.wait()
        yield events.NoMoreActions()

    cancelled_meanwhile(db, busy, lambda: desk.run(handler, "x"))
    is_over(desk)


def test_what_comes_after_the_turn_in_its_task_is_not_cancelled(
    db: SessionDB, desk: Desk, busy: Busy
) -> None:
    async def program() -> None:
        with pytest.raises(Cancelled):
            async with session_context("s", db=db, runtime=Runtime(Scripted(["a"]))) as session:
                assert session.runtime is not None
                await session.runtime.aexec("one")
                await busy.wait()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0.05)
        raise Cancelled

    cancelled_meanwhile(db, busy, lambda: asyncio.run(program()))
    is_over(desk)


def test_a_turn_that_waits_for_an_approval(db: SessionDB, desk: Desk) -> None:
    @tool(needs_approval=True)
    def send() -> str:
        """Send."""
        return "sent"

    agent = chat_agent(Scripted([{"tool_calls": [{"name": "send", "arguments": {}}]}]), tools=[send])
    desk.run(agent, "x")
    turn_id = cancel(db.journal("s"), reason="enough")
    assert cancel(db.journal("s"), turn_id) == turn_id
    assert (desk.waits(), desk.types()[-4:]) == (
        [],
        ["CANCEL_REQUESTED", "TOOL_APPROVAL_DENIED", "TOOL_RESULT", "TURN_CANCELLED"],
    )
    is_over(desk)


def test_a_turn_that_waits_for_an_answer(db: SessionDB, desk: Desk) -> None:
    @agentic_function
    def asks(runtime: Any = None) -> str:
        """Ask."""
        return str(ask_user("Which?"))

    with pytest.raises(Suspended):
        asks.run(session_id="s")
    [wait] = decisions.open_waits(db.journal("s"))
    cancel(db.journal("s"), reason="enough")
    with pytest.raises(NotWaiting):
        decisions.answer(db.journal("s"), wait.id, "that one")
    assert desk.waits() == []
    is_over(desk)


def test_a_turn_that_suspends_before_it_knows_is_cancelled(
    db: SessionDB, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "EVERY", 60)

    @agentic_function
    def asks(runtime: Any = None) -> str:
        """Ask."""
        runtime.exec("first")
        db.journal("s").append(CancelRequested())  # as another process does
        return str(ask_user("Which?"))

    with pytest.raises(Suspended):
        asks.run(session_id="s", runtime=Runtime(Scripted(["a"])))
    assert (desk.statuses(), desk.waits(), desk.rows()[-1].type) == (["cancelled"], [], "TURN_SUSPENDED")


def test_the_first_end_counts(db: SessionDB, desk: Desk) -> None:
    with session_context("s", db=db, runtime=Runtime(Scripted(["a"]))) as session:
        assert session.runtime is not None
        session.runtime.exec("x")
    rows = db.journal("s").last_seq
    assert cancel(db.journal("s")) == session.turn_id
    assert (desk.statuses(), db.journal("s").last_seq) == (["completed"], rows)


def test_what_is_not_there_cannot_be_cancelled(db: SessionDB) -> None:
    db.create_session("s")
    for turn_id in ("", "turn_x"):
        with pytest.raises(NotWaiting):
            cancel(db.journal("s"), turn_id)


def test_cancelling_races_with_the_end(db: SessionDB, desk: Desk) -> None:
    app, chance = AgentApp(), random.Random(1)

    @app.agent_route("/")
    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id=ctx.invocation_id)
        await asyncio.sleep(chance.uniform(0, 0.008))
        yield events.MessageEnd(message_id=ctx.invocation_id)

    async def one() -> None:
        driven = drive(app, "s", input="x", db=db)
        with contextlib.suppress(Cancelled):
            async for row in driven:
                if row.type == "MESSAGE_START":
                    canceller = asyncio.create_task(
                        asyncio.to_thread(cancel, db.journal("s"), driven.turn_id)
                    )
        await canceller

    async def all_of_them() -> None:
        for _ in range(500):
            await one()

    asyncio.run(all_of_them())
    ended = [row for row in desk.types() if row in ("NO_MORE_ACTIONS", "TURN_CANCELLED")]
    assert len(ended) == len(desk.statuses()) == 500
    assert set(desk.statuses()) == {"cancelled", "completed"}
