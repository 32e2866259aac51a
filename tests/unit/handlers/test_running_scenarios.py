"""Scenarios of kinds 2, 3, 4 and 6 through whole turns of handlers: resuming, concurrency, ambient state, compaction.

Those with processes that are killed are in tests/acceptance/test_scenarios.py.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from handling import Desk, calls, say

import segue
from segue import SessionContext, chat_agent, drive, events, tool
from segue.dispatch import Dispatcher
from segue.errors import AlreadyDecided, Cancelled, NoSession, SessionBusy
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.ambient import current_session, require_writer
from segue.session.cancelling import cancel
from segue.session.db import SessionDB
from segue.session.runtime import Runtime


async def answering(ctx: SessionContext) -> AsyncIterator[events.Event]:
    for event in say("ok", f"m-{ctx.invocation_id}"):
        yield event


# --- kind 2 ---


def test_b014_a_message_that_was_cut_off_keeps_its_text_and_is_not_written_to_again(desk: Desk) -> None:
    async def dies(ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id="m2")
        for text in ("The answer ", "has two parts: ", "first"):
            yield events.MessageDelta(message_id="m2", delta={"type": "text", "text": text})
        yield events.ToolCall(tool_call_id="c1", name="never", arguments={})
        raise SystemExit

    with pytest.raises(SystemExit):
        desk.run(dies, "explain")
    assert desk.statuses() == ["interrupted"]
    model = Scripted(["of the second"])
    desk.run(chat_agent(model), "go on")
    sent = [(message["role"], message["content"]) for message in model.requests[0].messages]
    assert sent[1] == ("assistant", "The answer has two parts: first")
    assert sent[-1] == ("user", "go on")
    assert [row["message_id"] for row in desk.payloads("MESSAGE_DELTA")].count("m2") >= 1
    assert desk.payloads("MESSAGE_END")[-1]["message_id"] != "m2"
    assert desk.payloads("TOOL_STARTED") == []


def test_b016_what_was_finished_and_decided_is_not_done_or_asked_again(desk: Desk) -> None:
    counted: Counter[str] = Counter()

    def tools(needs_approval: Any) -> list[Any]:
        def free() -> str:
            counted["free"] += 1
            return "free"

        @tool(needs_approval=needs_approval)
        def gated() -> str:
            counted["gated"] += 1
            return "gated"

        return [free, gated]

    def asks(arguments: Any) -> bool:
        counted["asked"] += 1
        return counted["asked"] == 1

    def never(arguments: Any) -> bool:
        raise AssertionError("it is decided already")

    model = Scripted([calls(("free", {}), ("gated", {})), "done"])
    desk.run(chat_agent(tools=tools(asks)), "x", model=model)
    desk.approve()
    assert desk.run(chat_agent(tools=tools(never)), model=model).value == "done"
    assert counted == {"free": 1, "gated": 1, "asked": 1}


# --- kind 3 ---


async def test_b020_of_many_writers_in_one_process_each_turn_is_whole(desk: Desk) -> None:
    async def writer(name: str) -> int:
        won = 0
        for number in range(5):
            model = Scripted(["ok"])
            try:
                await desk.drive(chat_agent(model), f"{name} {number}")
                won += 1
            except SessionBusy:
                assert model.requests == [], "who is refused has paid nothing"
        return won

    won = sum(await asyncio.gather(*(writer(name) for name in "abcd")))
    rows = desk.rows()
    assert won > 0
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert desk.told() == [pair for pair in desk.told() if pair[0] in ("user", "assistant")]
    assert sum(role == "user" for role, _ in desk.told()) == won
    assert desk.statuses() == ["completed"] * won


def test_b022_of_many_decisions_at_once_one_counts_and_the_tool_runs_as_it_says(desk: Desk) -> None:
    ran: list[int] = []

    @tool(needs_approval=True)
    def pay(eur: int) -> str:
        ran.append(eur)
        return "paid"

    app, model = chat_agent(tools=[pay]), Scripted([calls(("pay", {"eur": 5})), "done"])
    [call_id] = desk.run(app, "pay", model=model).waits
    journal, line = desk.db.journal("s"), threading.Barrier(8)

    def decide(number: int) -> str:
        line.wait(30)
        try:
            (decisions.approve if number % 2 else decisions.deny)(journal, call_id)
        except AlreadyDecided as error:
            return f"told {error.decision}"
        return "granted" if number % 2 else "denied"

    with ThreadPoolExecutor(8) as executor:
        told = Counter(executor.map(decide, range(8)))
    [won] = [word for word in told if not word.startswith("told")]
    assert told == {won: 1, f"told {won}": 7}
    desk.run(app, model=model)
    assert ran == ([5] if won == "granted" else [])
    before = desk.rows()
    for again in (decisions.approve, decisions.deny):
        with pytest.raises(AlreadyDecided):
            again(journal, call_id)
    assert desk.rows() == before


async def test_b023_who_submits_a_turn_may_go_and_whoever_comes_sees_it_all(desk: Desk) -> None:
    go, entered = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        entered.set()
        await go.wait()
        return "slow"

    app = segue.AgentApp()
    app.agent_route("/")(chat_agent(Scripted([calls(("slow", {})), "done"]), tools=[slow]))

    async with Dispatcher(app, db=desk.db) as dispatcher:
        submitted = await dispatcher.submit("go", "s")

        async def look() -> None:  # a client that reads the journal, and goes away
            for _ in desk.db.read("s"):
                break

        await asyncio.create_task(look())
        await entered.wait()
        go.set()
        assert (await dispatcher.finished(submitted)).status == "completed"
    assert desk.told()[-1] == ("assistant", "done")


async def test_b023_whoever_leaves_a_driven_turn_interrupts_it_and_it_goes_on_later(desk: Desk) -> None:
    left: list[str] = []

    @tool(idempotent=True)
    async def slow() -> str:
        if not left:
            await asyncio.Event().wait()
        return "slow"

    model = Scripted([calls(("slow", {})), "done"])
    app = chat_agent(model, tools=[slow])
    async with drive(app, "s", input="go", db=desk.db) as driven:
        async for envelope in driven:
            if envelope.type == "TOOL_STARTED":
                break
    left.append(driven.status)
    assert left == ["interrupted"]
    assert (await desk.drive(app)).value == "done"
    assert len(model.requests) == 2


async def test_b024_a_cancelled_turn_ends_once_and_no_other_is_touched(desk: Desk) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        entered.set()
        await asyncio.Event().wait()
        return "never"

    async def patient() -> str:
        await go.wait()
        return "patient"

    a = asyncio.create_task(_driven(desk, "a", slow))
    b = asyncio.create_task(_driven(desk, "b", patient))
    await entered.wait()
    await asyncio.gather(*(asyncio.to_thread(cancel, desk.db.journal("a")) for _ in range(2)))
    with pytest.raises(Cancelled):
        await a
    go.set()
    await b
    assert (desk.types("a").count("TURN_CANCELLED"), desk.types("a").count("NO_MORE_ACTIONS")) == (1, 0)
    assert (desk.statuses("a"), desk.statuses("b")) == (["cancelled"], ["completed"])
    assert len(desk.payloads("TOOL_RESULT", "a")) == 1


async def _driven(desk: Desk, session: str, slow: Any) -> None:
    model = Scripted([calls((slow.__name__, {})), "done"])
    await desk.drive(chat_agent(model, tools=[slow]), "x", session=session)


# --- kind 4 ---


async def test_b025_turns_that_are_left_early_leave_no_error_and_no_session(desk: Desk) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async for _ in drive(answering, "dropped", input="x", db=desk.db):
        break
    gc.collect()
    foreign: Any = aiter(drive(answering, "foreign", input="x", db=desk.db))
    await anext(foreign)
    await asyncio.create_task(foreign.aclose())
    stepped: Any = aiter(drive(answering, "stepped", input="x", db=desk.db))
    for _ in range(2):
        await asyncio.create_task(_step(stepped))
    await stepped.aclose()
    await asyncio.get_running_loop().shutdown_asyncgens()
    async with asyncio.timeout(30):
        while any(desk.db.store.holder(session) for session in desk.db.store.sessions()):
            await asyncio.sleep(0.01)
    assert (errors, current_session()) == ([], None)


async def _step(iterator: Any) -> Any:
    return await anext(iterator)


async def test_b027_chats_that_are_interleaved_in_one_task_stay_in_their_own_sessions(desk: Desk) -> None:
    def where() -> str:
        return current_session().session_id  # type: ignore[union-attr]

    def chat(name: str) -> Any:
        model = Scripted([calls(("where", {})), f"this is {name}"])
        return aiter(drive(chat_agent(model, tools=[where]), name, input="x", db=desk.db))

    open_ones = [chat("a"), chat("b")]
    while open_ones:
        for iterator in list(open_ones):
            if await anext(iterator, None) is None:
                open_ones.remove(iterator)
            assert current_session() is None
    for name in "ab":
        assert desk.told(name)[-2:] == [("tool", name), ("assistant", f"this is {name}")]


async def test_b028_a_streaming_response_of_a_turn_is_read_by_other_tasks(desk: Desk) -> None:
    """As a web framework does: the endpoint makes the body, another task reads it, some clients go."""

    async def endpoint(name: str) -> AsyncIterator[str]:
        return _body(desk, name)

    async def client(number: int) -> None:
        name = f"client-{number}"
        body = await asyncio.create_task(endpoint(name))
        for _ in range(2 if number % 2 else 100):
            if await asyncio.create_task(anext(body, None)) is None:  # type: ignore[arg-type]
                break
        await asyncio.create_task(body.aclose())  # type: ignore[attr-defined]

    await asyncio.gather(*(client(number) for number in range(8)))
    for number in range(8):
        name = f"client-{number}"
        deltas = "".join(row["delta"]["text"] for row in desk.payloads("MESSAGE_DELTA", name))
        assert deltas in ((f"from {name}",) if number % 2 == 0 else ("", f"from {name}"))
    assert current_session() is None


async def _body(desk: Desk, name: str) -> AsyncIterator[str]:
    async with drive(chat_agent(Scripted([f"from {name}"])), name, input="x", db=desk.db) as driven:
        async for envelope in driven:
            yield f"id: {envelope.seq}\ndata: {envelope.type}\n\n"


def test_b029_tools_are_in_their_session_and_in_threads_of_their_own_nothing_is_lost(desk: Desk) -> None:
    def where() -> list[str]:
        with ThreadPoolExecutor(1) as executor:
            with pytest.raises(NoSession):
                executor.submit(require_writer).result()
            carried = executor.submit(contextvars.copy_context().run, current_session).result()
            assert executor.submit(current_session).result() is None
        return [current_session().session_id, carried.session_id]  # type: ignore[union-attr]

    desk.run(chat_agent(tools=[where]), "x", model=Scripted([calls(("where", {})), "done"]))
    assert desk.payloads("TOOL_RESULT")[0]["result"] == ["s", "s"]


# --- kind 6 ---


@pytest.mark.parametrize("cut", range(4), ids=["before all", "before A", "before B", "after both"])
def test_b046_a_compaction_between_the_results_of_one_message_leaves_a_valid_history(
    desk: Desk, cut: int
) -> None:
    """The writer of summaries is due with issue D; this is the handler's own, at every place."""

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        steps: list[events.Event] = [
            events.MessageStart(message_id="m2"),
            events.ToolCall(tool_call_id="A", name="t", arguments={"n": 1}),
            events.ToolCall(tool_call_id="B", name="t", arguments={"n": 2}),
            events.MessageEnd(message_id="m2"),
            events.ToolResult(tool_call_id="A", result="ra"),
            events.ToolResult(tool_call_id="B", result="rb"),
        ]
        place = [0, 4, 5, 6][cut]
        for event in steps[:place]:
            yield event
        last = desk.db.journal("s").last_seq
        summary = [{"role": "user", "content": "Until now: q was asked, t was called."}]
        yield events.TranscriptCompacted(messages=summary, replaces_up_to_seq=last)
        for event in [*steps[place:], *say("done", "m3")]:
            yield event

    desk.run(handler, "q")
    model = Scripted(["fine"])
    desk.run(chat_agent(model), "and now?")
    assert model.requests[0].messages[0]["content"].startswith("Until now")
    assert desk.types().count("TRANSCRIPT_COMPACTED") == 1


def test_b047_a_call_that_waits_survives_a_compaction_and_runs_once_as_it_was_asked(desk: Desk) -> None:
    paid: list[int] = []

    @tool(needs_approval=True)
    def pay(eur: int) -> str:
        paid.append(eur)
        return "paid"

    app, model = chat_agent(tools=[pay]), Scripted([calls(("pay", {"eur": 5})), "done"])
    [call_id] = desk.run(app, "pay now", model=model).waits
    journal = desk.db.journal("s")
    lease = journal.acquire(holder="compaction")
    journal.append(
        events.TranscriptCompacted(
            messages=[{"role": "user", "content": "Summary of everything so far."}],
            replaces_up_to_seq=journal.last_seq,
        ),
        lease=lease,
        expected_seq=journal.last_seq,
    )
    journal.release(lease)
    [wait] = decisions.open_waits(journal)
    assert (wait.id, wait.name, wait.arguments) == (call_id, "pay", {"eur": 5})
    desk.approve()
    assert desk.run(app, model=model).value == "done"
    sent = [(message["role"], message["content"]) for message in model.requests[1].messages]
    assert (paid, sent) == (
        [5],
        [("user", "Summary of everything so far."), ("assistant", ""), ("tool", "paid")],
    )


def test_b049_a_compaction_that_fails_or_comes_too_late_leaves_the_conversation_as_it_was(
    desk: Desk, db: SessionDB
) -> None:
    """How often it is tried without gain is the writer's to count: due with issue D."""

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        for event in say("first", "m1"):
            yield event
        summary = [{"role": "user", "content": "s" * 8000}]
        yield events.TranscriptCompacted(messages=summary, replaces_up_to_seq=1)
        raise RuntimeError("the summary failed")

    with pytest.raises(RuntimeError):
        desk.run(handler, "hi")
    assert desk.told() == [("user", "hi"), ("assistant", "first")]
    run = drive(chat_agent(), "s", input="again", db=db, runtime=Runtime(Scripted(["fine"]))).run()
    assert run.value == "fine"
