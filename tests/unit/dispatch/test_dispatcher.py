"""Turns are submitted, and run in order in each session, whatever happens to the process."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest
from handling import Desk

from segue import AgentApp, Budget, SessionContext, chat_agent, drive, events, tool
from segue.dispatch import Dispatcher, submit
from segue.errors import SessionBusy, UsageError
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.ambient import current_session
from segue.session.db import SessionDB
from segue.session.runtime import Runtime


class Office:
    """An app that notes what it was told, in which order, and how many turns of a session ran at the same time."""

    def __init__(self) -> None:
        self.told: dict[str, list[str]] = defaultdict(list)
        self.most: dict[str, int] = defaultdict(int)
        self.running: dict[str, int] = defaultdict(int)
        self.gate = asyncio.Event()
        self.gate.set()
        self.app = AgentApp()
        self.app.agent_route("/")(self.handler)

    async def handler(self, ctx: SessionContext) -> AsyncIterator[events.Event]:
        self.running[ctx.session_id] += 1
        self.most[ctx.session_id] = max(self.most[ctx.session_id], self.running[ctx.session_id])
        try:
            self.told[ctx.session_id].append(ctx.input)
            yield events.MessageStart(message_id=f"m-{ctx.invocation_id}")
            yield events.MessageDelta(
                message_id=f"m-{ctx.invocation_id}", delta={"type": "text", "text": "noted"}
            )
            await self.gate.wait()
            if ctx.input == "fail":
                raise ValueError("no luck")
            yield events.MessageEnd(message_id=f"m-{ctx.invocation_id}")
        finally:
            self.running[ctx.session_id] -= 1


@pytest.fixture
async def office() -> Office:
    return Office()


async def until_running(office: Office, session_id: str = "s") -> None:
    while not office.running[session_id]:
        await asyncio.sleep(0.01)


async def test_a_submitted_turn_is_run_and_its_end_awaited(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        submitted = await dispatcher.submit("hello", "s")
        turn = await dispatcher.finished(submitted)
    assert (turn.turn_id, turn.status, turn.source) == (submitted.turn_id, "completed", "dispatcher")
    assert (office.told["s"], current_session()) == (["hello"], None)


async def test_turns_of_a_session_run_one_after_another_in_order(db: SessionDB, office: Office) -> None:
    said = [f"message {number}" for number in range(10)]
    async with Dispatcher(office.app, db=db) as dispatcher:
        submitted = [await dispatcher.submit(text, "s") for text in said]
        turns = [await dispatcher.finished(one) for one in submitted]
    assert [turn.status for turn in turns] == ["completed"] * 10
    assert (office.told["s"], office.most["s"]) == (said, 1)


async def test_sessions_run_at_the_same_time_up_to_the_limit(db: SessionDB, office: Office) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db, at_once=3) as dispatcher:
        submitted = [await dispatcher.submit("x", f"s{number}") for number in range(5)]
        while sum(office.running.values()) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert sum(office.running.values()) == 3
        office.gate.set()
        assert {(await dispatcher.finished(one)).status for one in submitted} == {"completed"}


async def test_a_turn_that_fails_does_not_stop_the_next(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        failing, next_one = [await dispatcher.submit(text, "s") for text in ("fail", "go on")]
        statuses = [(await dispatcher.finished(one)).status for one in (failing, next_one)]
    assert statuses == ["failed", "completed"]


async def test_submitting_again_under_the_same_client_id_is_one_turn(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        several = await asyncio.gather(*(dispatcher.submit("hello", "s", client_id="c1") for _ in range(8)))
        await dispatcher.finished(several[0])
        later = await dispatcher.submit("hello", "s", client_id="c1")
        await dispatcher.drained()
    assert len({one.turn_id for one in [*several, later]}) == 1
    assert (office.told["s"], later.is_new) == (["hello"], False)


async def test_a_busy_session_refuses_if_the_caller_says_so(db: SessionDB, office: Office) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db) as dispatcher:
        await dispatcher.submit("first", "s")
        await until_running(office)
        with pytest.raises(SessionBusy):
            await dispatcher.submit("second", "s", mode="refuse")
        assert [row.type for row in db.read("s")].count("TURN_SUBMITTED") == 1
        office.gate.set()
        await dispatcher.drained()
        await dispatcher.finished(await dispatcher.submit("third", "s", mode="refuse"))
    assert office.told["s"] == ["first", "third"]


async def test_of_two_that_would_rather_be_refused_one_is(db: SessionDB) -> None:
    db.create_session("s")

    def try_it(text: str) -> bool:
        with contextlib.suppress(SessionBusy):
            return submit(db.journal("s"), text, mode="refuse").is_new
        return False

    tried = await asyncio.gather(*(asyncio.to_thread(try_it, text) for text in "abcdef"))
    assert sorted(tried) == [False] * 5 + [True]


async def test_what_was_queued_when_the_process_ended_is_run_by_the_next(
    db: SessionDB, office: Office
) -> None:
    for session_id in ("s", "t"):
        db.create_session(session_id)
        for text in ("one", "two"):
            submit(db.journal(session_id), text)
    assert [info.status for info in db.list_sessions()] == ["queued", "queued"]
    async with Dispatcher(office.app, db=db) as dispatcher:
        await dispatcher.drained()
    assert dict(office.told) == {"s": ["one", "two"], "t": ["one", "two"]}
    assert [info.status for info in db.list_sessions()] == ["completed", "completed"]


async def test_a_turn_that_ran_when_the_dispatcher_was_left_goes_on_with_the_next(
    db: SessionDB, office: Office
) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db) as dispatcher:
        first, second = [await dispatcher.submit(text, "s") for text in ("first", "second")]
        await until_running(office)
    assert [turn.status for turn in db.turns("s").all] == ["interrupted"]
    office.gate.set()
    async with Dispatcher(office.app, db=db) as dispatcher:
        assert [(await dispatcher.finished(one)).status for one in (first, second)] == ["completed"] * 2
    assert office.told["s"] == ["first", "first", "second"]
    assert [turn.attempt for turn in db.turns("s").all] == [2, 1]


async def test_a_turn_that_is_interrupted_again_and_again_stands_in_nobodys_way(
    db: SessionDB, office: Office
) -> None:
    office.gate.clear()
    for _ in range(3):
        async with Dispatcher(office.app, db=db) as dispatcher:
            await dispatcher.submit("poison", "s", client_id="poison")
            office.told.clear()
            while not office.told["s"]:
                await asyncio.sleep(0.01)
    office.gate.set()
    async with Dispatcher(office.app, db=db) as dispatcher:
        await dispatcher.finished(await dispatcher.submit("food", "s"))
    assert [turn.status for turn in db.turns("s").all] == ["interrupted", "completed"]


async def test_what_another_process_submits_is_noticed(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db, look_every=0.05) as dispatcher:
        db.create_session("s")
        submitted = await asyncio.to_thread(submit, db.journal("s"), "hello")
        assert (await dispatcher.finished(submitted)).status == "completed"


async def test_an_unknown_route_is_refused_or_fails_the_turn(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        with pytest.raises(UsageError, match="there is no route /x"):
            await dispatcher.submit("hello", "s", path="/x")
        with pytest.raises(UsageError, match="blank"):
            await dispatcher.submit(" ", "s")
        db.create_session("s")
        submitted = submit(db.journal("s"), "hello", path="/x")
        dispatcher.poke("s")
        assert (await dispatcher.finished(submitted)).status == "failed"


async def test_a_turn_of_somebody_else_is_waited_for(db: SessionDB, office: Office) -> None:
    db.create_session("s")
    lease = db.journal("s").acquire(holder="somebody")
    async with Dispatcher(office.app, db=db) as dispatcher:
        submitted = await dispatcher.submit("hello", "s")
        await asyncio.sleep(0.3)
        assert office.told["s"] == []
        db.journal("s").release(lease)
        assert (await dispatcher.finished(submitted)).status == "completed"


async def test_a_session_that_is_deleted_ends_its_lane_only(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        await dispatcher.finished(await dispatcher.submit("hello", "s"))
        db.delete_session("s")
        dispatcher.poke("s")
        await dispatcher.drained()
        assert (await dispatcher.finished(await dispatcher.submit("hello", "t"))).status == "completed"
        assert (await dispatcher.finished(await dispatcher.submit("again", "s"))).status == "completed"


async def test_two_dispatchers_of_one_store_run_each_turn_once(db: SessionDB, office: Office) -> None:
    async with (
        Dispatcher(office.app, db=db, look_every=0.05) as one,
        Dispatcher(office.app, db=db, look_every=0.05) as other,
    ):
        submitted = [
            await dispatcher.submit(f"{number}", f"s{number % 3}")
            for number in range(12)
            for dispatcher in [(one, other)[number % 2]]
        ]
        for submission in submitted:
            assert (await one.finished(submission)).status == "completed"
    assert sorted(text for told in office.told.values() for text in told) == sorted(map(str, range(12)))
    assert set(office.most.values()) == {1}


# --- steering ---


def busy_agent(db: SessionDB, *replies: Any) -> tuple[Dispatcher, asyncio.Event, asyncio.Event, Scripted]:
    """A chat agent whose tool waits; the events tell that it does, and let it go on."""
    looking, go_on, model = asyncio.Event(), asyncio.Event(), Scripted(list(replies))

    @tool
    async def look() -> str:
        """Look."""
        looking.set()
        await go_on.wait()
        return "seen"

    app = AgentApp()
    app.agent_route("/")(chat_agent(model, tools=[look]))
    return Dispatcher(app, db=db, look_every=0.05), looking, go_on, model


LOOKS: dict[str, Any] = {"tool_calls": [{"name": "look", "arguments": {}}]}


async def test_a_message_reaches_the_running_turn_where_every_call_has_its_result(
    db: SessionDB, desk: Desk
) -> None:
    agent, looking, go_on, model = busy_agent(db, LOOKS, "as you said", "next")
    async with agent as dispatcher:
        first = await dispatcher.submit("look", "s")
        await looking.wait()
        queued = await dispatcher.submit("later", "s")
        steering = await dispatcher.submit("to the left", "s", mode="steer")
        go_on.set()
        assert (await dispatcher.finished(first)).status == "completed"
        assert (await dispatcher.finished(steering)).status == "completed"
        await dispatcher.finished(queued)
    assert desk.told() == [
        ("user", "look"),
        ("assistant", ""),
        ("tool", "seen"),
        ("user", "to the left"),
        ("assistant", "as you said"),
        ("user", "later"),
        ("assistant", "next"),
    ]
    assert model.requests[1].messages[-1] == {"role": "user", "content": "to the left"}


async def test_a_message_that_comes_too_late_to_steer_is_a_turn(db: SessionDB, desk: Desk) -> None:
    agent, _, _, _ = busy_agent(db, "one", "two")
    async with agent as dispatcher:
        for text in ("first", "second"):
            turn = await dispatcher.finished(await dispatcher.submit(text, "s", mode="steer"))
            assert turn.status == "completed"
    assert [text for role, text in desk.told() if role == "user"] == ["first", "second"]
    assert desk.statuses() == ["completed"] * 2


async def test_a_handler_of_ones_own_asks_for_what_was_sent(db: SessionDB, desk: Desk) -> None:
    asked, sent = asyncio.Event(), asyncio.Event()
    taken: list[list[str]] = []

    async def handler(ctx: SessionContext) -> AsyncIterator[events.Event]:
        asked.set()
        await sent.wait()
        taken.extend([await ctx.steered(), await ctx.steered()])
        yield events.NoMoreActions()

    async with Dispatcher(handler, db=db) as dispatcher:
        first = await dispatcher.submit("hello", "s")
        await asked.wait()
        for text in ("one", "two"):
            await dispatcher.submit(text, "s", mode="steer")
        sent.set()
        await dispatcher.finished(first)
        await dispatcher.drained()
    assert (taken, desk.statuses()) == ([["one", "two"], []], ["completed"])
    assert desk.told() == [("user", "hello"), ("user", "one"), ("user", "two")]


async def test_only_text_steers(db: SessionDB, office: Office) -> None:
    async with Dispatcher(office.app, db=db) as dispatcher:
        with pytest.raises(UsageError, match="only text"):
            await dispatcher.submit([{"type": "text", "text": "x"}], "s", mode="steer")


# --- cancelling ---


async def test_a_turn_that_is_cancelled_lets_the_next_one_run(db: SessionDB, office: Office) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db) as dispatcher:
        first, second = [await dispatcher.submit(text, "s") for text in ("first", "second")]
        await until_running(office)
        await dispatcher.cancel("s", reason="enough")
        assert (await dispatcher.finished(first)).status == "cancelled"
        office.gate.set()
        assert (await dispatcher.finished(second)).status == "completed"
    assert [row.type for row in db.read("s")].count("TURN_CANCELLED") == 1


async def test_what_is_cancelled_before_it_began_never_runs(db: SessionDB, office: Office) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db) as dispatcher:
        first, second, third = [await dispatcher.submit(text, "s") for text in ("first", "second", "third")]
        await until_running(office)
        for _ in range(2):
            assert await dispatcher.cancel("s", second.turn_id) == second.turn_id
        assert (await dispatcher.finished(second)).status == "cancelled"
        office.gate.set()
        assert [(await dispatcher.finished(one)).status for one in (first, third)] == ["completed"] * 2
    assert office.told["s"] == ["first", "third"]


async def test_another_session_is_not_touched_by_a_cancellation(db: SessionDB, office: Office) -> None:
    office.gate.clear()
    async with Dispatcher(office.app, db=db) as dispatcher:
        mine, other = [await dispatcher.submit("x", name) for name in ("s", "t")]
        await until_running(office, "s")
        await until_running(office, "t")
        await dispatcher.cancel("s")
        assert (await dispatcher.finished(mine)).status == "cancelled"
        assert db.turns("t").all[0].status == "running"
        office.gate.set()
        assert (await dispatcher.finished(other)).status == "completed"


# --- waits ---


class Post:
    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(needs_approval=True)
        def send(to: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return f"sent to {to}"

        self.app = AgentApp()
        self.app.agent_route("/")(chat_agent(tools=[send]))


def asks_to_send(to: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "send", "arguments": {"to": to}}]}


def dispatching(post: Post, db: SessionDB, *replies: Any) -> Dispatcher:
    return Dispatcher(post.app, db=db, look_every=0.05, runtime=Runtime(Scripted(list(replies))))


async def test_a_turn_goes_on_once_somebody_decided(db: SessionDB, desk: Desk) -> None:
    post = Post()
    async with dispatching(post, db, asks_to_send("Ada"), "done") as dispatcher:
        submitted = await dispatcher.submit("write", "s")
        turn = await dispatcher.finished(submitted)
        assert (turn.status, post.sent) == ("suspended", [])
        [wait] = decisions.open_waits(db.journal("s"))
        await asyncio.to_thread(decisions.approve, db.journal("s"), wait.id)
        assert (await dispatcher.finished(submitted)).status == "completed"
    assert (post.sent, desk.told()[-1]) == (["Ada"], ("assistant", "done"))


async def test_what_was_submitted_before_a_wait_was_seen_does_not_deny_it(db: SessionDB, desk: Desk) -> None:
    post = Post()
    for text in ("write", "and then?"):
        db.create_session("s")
        submit(db.journal("s"), text)
    async with dispatching(post, db, asks_to_send("Ada"), "done", "nothing") as dispatcher:
        await dispatcher.drained()
        [wait] = decisions.open_waits(db.journal("s"))
        decisions.approve(db.journal("s"), wait.id)
        dispatcher.poke("s")
        await dispatcher.drained()
    assert post.sent == ["Ada"]
    assert desk.told() == [
        ("user", "write"),
        ("assistant", ""),
        ("tool", "sent to Ada"),
        ("assistant", "done"),
        ("user", "and then?"),
        ("assistant", "nothing"),
    ]


async def test_what_is_said_while_a_turn_waits_supersedes_the_wait(db: SessionDB) -> None:
    post = Post()
    async with dispatching(post, db, asks_to_send("Ada"), "as you like") as dispatcher:
        first = await dispatcher.submit("write", "s")
        await dispatcher.finished(first)
        second = await dispatcher.submit("no, leave it", "s")
        assert (await dispatcher.finished(second)).status == "completed"
    assert (post.sent, [turn.status for turn in db.turns("s").all]) == ([], ["cancelled", "completed"])


async def test_what_is_decided_in_a_sub_agents_session_lets_the_turn_go_on(db: SessionDB, desk: Desk) -> None:
    ran = []

    @tool(needs_approval=True)
    def publish(text: str) -> str:
        """Publish it."""
        ran.append(text)
        return "published"

    @tool
    async def edit(text: str) -> str:
        """Have it edited."""
        return str((await drive(chat_agent(tools=[publish]), "editing", input=text).finish()).value)

    model = Scripted(
        [
            {"tool_calls": [{"name": "edit", "arguments": {"text": "a poem"}}]},
            {"tool_calls": [{"name": "publish", "arguments": {"text": "a poem"}}]},
            "it is out",
            "done",
        ]
    )
    author = chat_agent(tools=[edit])
    async with Dispatcher(author, runtime=Runtime(model), db=db, look_every=0.05) as dispatcher:
        submitted = await dispatcher.submit("Write.", "s")
        assert (await dispatcher.finished(submitted)).status == "suspended"
        rows = len(desk.rows())
        await dispatcher.drained()
        assert len(desk.rows()) == rows, "it does not go on before that is decided"
        [wait] = decisions.open_waits(db.journal("editing"))
        decisions.approve(db.journal("editing"), wait.id)
        while (turn := db.turns("s").all[-1]).status != "completed":
            await asyncio.sleep(0.01)
    assert (turn.attempt, ran, desk.told()[-1]) == (2, ["a poem"], ("assistant", "done"))


# --- budgets ---


async def test_a_submitted_turn_spends_no_more_than_it_may_and_the_next_one_runs(
    db: SessionDB, desk: Desk
) -> None:
    agent, looking, go_on, model = busy_agent(db, LOOKS, LOOKS, LOOKS, "next")
    go_on.set()
    async with agent as dispatcher:
        first = await dispatcher.submit("look", "s", budget=Budget(model_calls=2))
        second = await dispatcher.submit("and now?", "s")
        assert (await dispatcher.finished(first)).status == "failed"
        assert (await dispatcher.finished(second)).status == "completed"
    assert [row["code"] for row in desk.payloads("ERROR")] == ["budget_exceeded"]
    assert (looking.is_set(), len(model.requests)) == (True, 4)


async def test_the_budget_of_what_was_queued_outlives_the_process(db: SessionDB, desk: Desk) -> None:
    db.create_session("s")
    submit(db.journal("s"), "look", budget=Budget(model_calls=1))
    agent, _, go_on, model = busy_agent(db, LOOKS, "never asked")
    go_on.set()
    async with agent as dispatcher:
        await dispatcher.drained()
    assert (desk.statuses(), len(model.requests)) == (["failed"], 1)


async def test_a_session_whose_budget_is_spent_refuses_every_turn_and_is_not_stuck(
    db: SessionDB, desk: Desk
) -> None:
    app, model = AgentApp(), Scripted(["one", "two", "three"])
    app.agent_route("/")(chat_agent(model, budget=Budget(session=Budget(model_calls=2))))
    async with Dispatcher(app, db=db) as dispatcher:
        for number in range(5):
            await dispatcher.submit(f"{number}", "s")
        await dispatcher.drained()
    assert desk.statuses() == ["completed", "completed", "failed", "failed", "failed"]
    assert len(model.requests) == 2
