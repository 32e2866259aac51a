"""Budgets: what a turn and its session may spend is counted, warned of, and not exceeded by any call that begins."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from handling import Desk, calls

from segue import Budget, agentic_function, chat_agent, drive, resume, session_context, step, tool
from segue.errors import BudgetExceeded, SegueError, Suspended, UnmeasuredBudget, UsageError
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session import metering, tailing
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime
from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore

PRICED = "openai:gpt-5-mini"
"""A model whose price is known: 0.25 dollars for a million tokens of input, 2 for one of output."""


@pytest.fixture(params=["memory", "git"])
def db(request: pytest.FixtureRequest, home: Path) -> Iterator[SessionDB]:
    opened = default_db() if request.param == "git" else SessionDB(MemoryStore())
    yield opened
    opened.close()


@pytest.fixture
def desk(db: SessionDB) -> Desk:
    return Desk(db)


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "EVERY", 0.01)


class Clock:
    """Of the meters; it goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(metering, "time", clock)
    return clock


def replies(*texts: str, tokens: int = 10, name: str = "scripted") -> Scripted:
    """Each reply uses that many tokens, a tenth of them output."""
    usage = {"input_tokens": tokens - tokens // 10, "output_tokens": tokens // 10}
    return Scripted([{"text": text, "usage": usage} for text in texts], name=name)


def ask(
    db: SessionDB, model: Scripted, *words: str, budget: Budget | None = None, session: str = "s"
) -> None:
    """One turn that asks the model these things."""
    with session_context(session, db=db, runtime=Runtime(model), budget=budget) as opened:
        assert opened.runtime is not None
        for word in words:
            opened.runtime.exec(word)


def begin(db: SessionDB, function: Any, model: Scripted, budget: Budget) -> Any:
    with session_context("s", db=db, runtime=Runtime(model), budget=budget):
        return function()


def failed_of_budget(desk: Desk) -> None:
    """The last turn has ended with its ERROR, each call has an end, and the next turn works."""
    assert desk.statuses()[-1] == "failed"
    assert [row.type for row in desk.rows()[-2:]] == ["ERROR", "NO_MORE_ACTIONS"]
    assert desk.payloads("ERROR")[-1]["code"] == "budget_exceeded"
    graph = desk.db.journal("s").view(CallGraph)
    assert [node.id for node in graph.nodes.values() if node.status == "running"] == []
    made, answered = (
        {row["tool_call_id"] for row in desk.payloads(kind)} for kind in ("TOOL_CALL", "TOOL_RESULT")
    )
    assert made == answered
    assert desk.db.store.holder("s") is None
    ask(desk.db, replies("fine"), "And now?")
    assert desk.statuses()[-1] == "completed"


# --- what is counted ---


@pytest.mark.parametrize(
    ("budget", "limit", "spent"),
    [
        (Budget(model_calls=2), "model_calls", 2),
        (Budget(tokens=20), "tokens", 20),
        (Budget(tokens=11), "tokens", 20),
        (Budget(model_calls=9, tokens=15), "tokens", 20),
    ],
)
def test_a_call_that_would_begin_over_budget_does_not_begin(
    db: SessionDB, desk: Desk, budget: Budget, limit: str, spent: int
) -> None:
    model = replies("one", "two", "three")
    with pytest.raises(BudgetExceeded) as raised:
        ask(db, model, "a", "b", "c", budget=budget)
    assert (raised.value.limit, raised.value.scope, raised.value.spent) == (limit, "turn", spent)
    assert (len(model.requests), len(desk.payloads("CALL_STARTED"))) == (2, 2)
    failed_of_budget(desk)


def test_a_turn_that_needs_no_more_than_it_may_spend_completes(db: SessionDB, desk: Desk) -> None:
    ask(
        db, replies("one", "two", tokens=500), "a", "b", budget=Budget(model_calls=2, tokens=501, seconds=600)
    )
    assert desk.statuses() == ["completed"]


def test_the_next_turn_has_a_budget_of_its_own(db: SessionDB, desk: Desk) -> None:
    model = replies("one", "two")
    for _ in range(2):
        ask(db, model, "a", budget=Budget(model_calls=1))
    assert desk.statuses() == ["completed"] * 2


def test_cost_is_counted_and_recorded(db: SessionDB, desk: Desk) -> None:
    pytest.importorskip("genai_prices")
    model = replies("one", "two", "three", tokens=1_000_000, name=PRICED)
    with pytest.raises(BudgetExceeded, match=r"spent 0\.85 of 0\.5 US dollars"):
        ask(db, model, "a", "b", "c", budget=Budget(cost=0.5))
    assert [row["usage"]["cost"] for row in desk.payloads("CALL_ENDED")] == [0.425] * 2
    failed_of_budget(desk)


def test_what_was_spent_without_a_cost_in_its_row_is_priced(db: SessionDB, desk: Desk) -> None:
    pytest.importorskip("genai_prices")
    model = replies("one", "two", "three", tokens=1_000_000, name=PRICED)
    ask(db, model, "a", "b")
    with pytest.raises(BudgetExceeded) as raised:
        ask(db, model, "c", budget=Budget(session=Budget(cost=0.85)))
    assert (raised.value.limit, raised.value.scope, raised.value.spent) == ("cost", "session", 0.85)


def test_a_cost_that_nobody_knows_is_refused(db: SessionDB, desk: Desk) -> None:
    pytest.importorskip("genai_prices")
    model = replies("one", name="openai:made-at-home")
    with pytest.raises(UnmeasuredBudget, match=r"price of openai:made-at-home.*limit model_calls"):
        ask(db, model, "a", budget=Budget(cost=5))
    assert (model.requests, desk.payloads("ERROR")[0]["code"]) == ([], "unmeasured_budget")


def test_what_costs_nothing_is_within_any_cost(db: SessionDB, desk: Desk) -> None:
    ask(db, replies("one", "two"), "a", "b", budget=Budget(cost=0.01))
    assert [row["usage"]["cost"] for row in desk.payloads("CALL_ENDED")] == [0.0, 0.0]


class Silent(Scripted):
    """Does not say what it used."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for chunk in super().stream(request):
            yield type(chunk)(chunk.reason) if hasattr(chunk, "usage") else chunk


def test_tokens_that_nobody_counts_are_refused(db: SessionDB, desk: Desk) -> None:
    model = Silent(["one", "two"])
    with pytest.raises(UnmeasuredBudget, match="scripted does not say what it uses"):
        ask(db, model, "a", "b", budget=Budget(tokens=1000))
    assert len(model.requests) == 1
    ask(db, Silent(["one", "two"]), "a", "b", budget=Budget(model_calls=5))


# --- the session's ---


def test_all_turns_of_a_session_spend_its_budget(db: SessionDB, desk: Desk) -> None:
    budget, model = Budget(session=Budget(tokens=25)), replies(*"abcd")
    ask(db, model, "one", budget=budget)
    ask(db, model, "two", budget=budget)
    with pytest.raises(
        BudgetExceeded, match=r"session s has spent 30 of 25 tokens: give the session a larger"
    ):
        ask(db, model, "three", "four", budget=budget)
    with pytest.raises(BudgetExceeded) as raised:
        ask(db, model, "five", budget=budget)
    assert (raised.value.scope, len(model.requests)) == ("session", 3)
    assert desk.statuses() == ["completed", "completed", "failed", "failed"]
    ask(db, model, "six", budget=Budget(session=Budget(tokens=100)))
    failed = [turn for turn in desk.statuses() if turn == "failed"]
    assert (len(failed), desk.statuses()[-1]) == (2, "completed")


def test_what_another_process_spent_counts(home: Path) -> None:
    before = SessionDB(GitStore(home / "sessions"))
    ask(before, replies("a", "b"), "one", "two")
    before.close()
    other = SessionDB(GitStore(home / "sessions"))
    with pytest.raises(BudgetExceeded, match="spent 20 of 20 tokens"):
        ask(other, replies("c"), "three", budget=Budget(session=Budget(tokens=20)))
    other.close()


# --- nobody gets round it ---


@agentic_function
def stubborn(times: int, runtime: Any = None) -> str:
    """Ask and ask."""
    for _ in range(times):
        with contextlib.suppress(Exception):
            runtime.exec("again")
    return "done all the same"


def test_code_that_swallows_it_cannot_go_on_calling(db: SessionDB, desk: Desk) -> None:
    model = replies(*"abcdef")

    @tool
    def look() -> str:
        """Look."""
        raise AssertionError("nothing begins after that")

    with (
        pytest.raises(BudgetExceeded),
        session_context("s", db=db, runtime=Runtime(model), budget=Budget(model_calls=2)) as opened,
    ):
        assert opened.runtime is not None
        stubborn(5)
        with contextlib.suppress(BaseException):
            step(look)
        with contextlib.suppress(BaseException):
            opened.runtime.exec("x", tools=[look])
    assert len(model.requests) == 2
    failed_of_budget(desk)


def test_a_model_that_goes_on_calling_tools_is_stopped(db: SessionDB, desk: Desk) -> None:
    ran = []

    @tool
    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        return f"nothing at {at}"

    model = Scripted([calls(("look", {"at": str(number)})) for number in range(50)])
    agent = chat_agent(model, tools=[look], steps=50, budget=Budget(model_calls=3))
    with pytest.raises(BudgetExceeded):
        desk.run(agent, "where?")
    assert (len(model.requests), ran) == (3, ["0", "1", "2"])
    assert desk.told()[-1] == ("tool", "nothing at 2")
    failed_of_budget(desk)


def test_nested_functions_spend_the_same_budget(db: SessionDB, desk: Desk) -> None:
    @agentic_function
    def inner(n: int, runtime: Any = None) -> str:
        """Inner."""
        return str(runtime.exec("x")) if n == 0 else inner(n - 1) + str(runtime.exec("y"))

    model = replies(*"abcdef")
    with pytest.raises(BudgetExceeded):
        begin(db, lambda: inner(5), model, Budget(model_calls=3))
    assert len(model.requests) == 3


def test_parallel_calls_spend_the_same_budget_and_those_that_run_come_to_their_end(
    db: SessionDB, desk: Desk
) -> None:
    model = Scripted([{"text": "x", "delay": 0.05}] * 10)

    async def program() -> None:
        async with session_context(
            "s", db=db, runtime=Runtime(model), budget=Budget(model_calls=4)
        ) as opened:
            assert opened.runtime is not None
            results = await asyncio.gather(
                *(opened.runtime.aexec(f"{number}") for number in range(10)), return_exceptions=True
            )
            assert len([result for result in results if isinstance(result, BudgetExceeded)]) == 6

    with pytest.raises(BudgetExceeded):
        asyncio.run(program())
    statuses = [row["status"] for row in desk.payloads("CALL_ENDED")]
    assert (len(model.requests), statuses) == (4, ["completed"] * 4)
    failed_of_budget(desk)


def sub_agent(db: SessionDB, model: Scripted) -> Any:
    """A tool that has another agent do its work, in a session of its own."""

    @tool
    async def research(what: str) -> str:
        """Have it looked up."""
        return str((await drive(chat_agent(model), f"on-{what}", input=what, db=db).finish()).value)

    return research


def test_sub_agents_spend_the_same_budget(db: SessionDB, desk: Desk) -> None:
    inner = replies(*"abcdef")
    wanted = [calls(("research", {"what": f"{number}"})) for number in range(5)]
    agent = chat_agent(Scripted(wanted), tools=[sub_agent(db, inner)], budget=Budget(model_calls=5))
    with pytest.raises(BudgetExceeded, match=r"turn .* has spent 5 of 5 model calls"):
        desk.run(agent, "all of it")
    assert len(inner.requests) == 2  # three of the outer agent's own
    assert db.turns("on-2").all[-1].status == "failed"
    assert [row["models"]["scripted"]["calls"] for row in desk.payloads("USAGE_REPORTED")] == [1, 1]
    failed_of_budget(desk)


def test_what_sub_agents_spent_counts_in_the_session_later(db: SessionDB, desk: Desk) -> None:
    inner = replies("found", tokens=100)
    agent = chat_agent(
        Scripted([calls(("research", {"what": "it"})), "there"]),
        tools=[sub_agent(db, inner)],
        budget=Budget(tokens=10_000),
    )
    desk.run(agent, "look")
    with pytest.raises(BudgetExceeded) as raised:
        ask(db, replies("x"), "more", budget=Budget(session=Budget(tokens=100)))
    assert raised.value.spent >= 100
    assert raised.value.scope == "session"


# --- running again ---


WAITING: dict[str, Any] = {}


@tool(needs_approval=True)
def send(to: str) -> str:
    """Send."""
    return f"sent to {to}"


@agentic_function
def writes(runtime: Any = None) -> str:
    """Write."""
    first = runtime.exec("one")
    runtime.exec("two", tools=[send])
    return f"{first} {runtime.exec('three')} {runtime.exec('four')}"


def test_what_an_earlier_attempt_spent_counts_and_is_counted_once(db: SessionDB, desk: Desk) -> None:
    model = Scripted(["a", calls(("send", {"to": "Ada"})), "sent", "b", "c"])
    with pytest.raises(Suspended):
        begin(db, writes, model, Budget(model_calls=4))
    desk.approve()
    with pytest.raises(BudgetExceeded, match="4 of 4 model calls"):
        resume("s", function=writes, runtime=Runtime(model), db=db)
    assert len(model.requests) == 4
    failed_of_budget(desk)


def test_a_turn_that_goes_on_can_be_given_more(db: SessionDB, desk: Desk) -> None:
    model = Scripted(["a", calls(("send", {"to": "Ada"})), "sent", "b", "c"])
    with pytest.raises(Suspended):
        begin(db, writes, model, Budget(model_calls=2))
    desk.approve()
    done = resume("s", function=writes, runtime=Runtime(model), budget=Budget(model_calls=5), db=db)
    assert done.value == "a b c"
    assert [row["budget"] for row in desk.payloads("INVOCATION_STARTED")] == [
        {"model_calls": 2},
        {"model_calls": 5},
    ]


@agentic_function
def has_it_researched(runtime: Any = None) -> str:
    """Have it researched, then send it."""
    inner = drive(chat_agent(WAITING["model"]), "inner", input="look")
    found = asyncio.run(inner.finish()).value
    runtime.exec("send", tools=[send])
    return f"{found} {runtime.exec('more')}"


def test_what_sub_agents_of_an_earlier_attempt_spent_counts_once(db: SessionDB, desk: Desk) -> None:
    WAITING["model"] = replies("found")
    model = Scripted([calls(("send", {"to": "Ada"})), "sent", "more"])
    with pytest.raises(Suspended):
        begin(db, has_it_researched, model, Budget(model_calls=3))
    desk.approve()
    with pytest.raises(BudgetExceeded, match="3 of 3 model calls"):
        resume("s", function=has_it_researched, runtime=Runtime(model), db=db)
    assert (len(model.requests), len(WAITING["model"].requests)) == (2, 1)


# --- time ---


class Slow(Scripted):
    """Streams a word, then nothing more."""

    def __init__(self) -> None:
        super().__init__(["word"])
        self.reached, self.ends = threading.Event(), list[str]()

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for chunk in super().stream(request):
            yield chunk
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ends.append("closed")


def test_a_model_stream_is_closed_when_the_time_is_over(db: SessionDB, desk: Desk, clock: Clock) -> None:
    model = Slow()

    def pass_time() -> None:
        model.reached.wait()
        clock.now += 31

    other = threading.Thread(target=pass_time)
    other.start()
    with pytest.raises(BudgetExceeded) as raised:
        desk.run(chat_agent(model, budget=Budget(seconds=30)), "x")
    other.join()
    assert (raised.value.limit, model.ends) == ("seconds", ["closed"])
    assert ("assistant", "w") in desk.told()
    assert desk.payloads("CALL_ENDED")[0]["status"] == "cancelled"
    failed_of_budget(desk)


def test_sub_agents_are_stopped_when_the_time_is_over(db: SessionDB, desk: Desk, clock: Clock) -> None:
    inner = Slow()

    def pass_time() -> None:
        inner.reached.wait()
        clock.now += 31

    other = threading.Thread(target=pass_time)
    other.start()
    agent = chat_agent(Scripted([calls(("research", {"what": "it"}))]), tools=[sub_agent(db, inner)])
    with pytest.raises(BudgetExceeded):
        asyncio.run(drive(agent, "s", input="look", db=db, budget=Budget(seconds=30)).finish())
    other.join()
    assert (inner.ends, db.turns("on-it").all[-1].status) == (["closed"], "failed")
    failed_of_budget(desk)


def test_waiting_for_somebody_takes_no_time_of_the_budget(db: SessionDB, desk: Desk, clock: Clock) -> None:
    model = Scripted(["a", calls(("send", {"to": "Ada"})), "sent", "b", "c"])
    with pytest.raises(Suspended):
        begin(db, writes, model, Budget(seconds=60))
    clock.now += 24 * 3600
    desk.approve()
    assert resume("s", function=writes, runtime=Runtime(model), db=db).value == "a b c"


def test_no_step_begins_when_the_time_is_over(
    db: SessionDB, desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "EVERY", 60)

    def late() -> None:
        raise AssertionError("not begun")

    with (
        pytest.raises(BudgetExceeded, match="spent 61 of 60 s"),
        session_context("s", db=db, budget=Budget(seconds=60)),
    ):
        step(int)
        clock.now += 61
        step(late)
    failed_of_budget(desk)


# --- warnings ---


def test_a_warning_is_recorded_at_four_fifths_of_a_limit_once(db: SessionDB, desk: Desk) -> None:
    model = replies(*"abcdefghij")
    ask(db, model, *"abcdefghij", budget=Budget(model_calls=10, tokens=1000, session=Budget(tokens=95)))
    given = [
        (row["scope"], row["limit"], row["spent"], row["allowed"]) for row in desk.payloads("BUDGET_WARNING")
    ]
    assert given == [("turn", "model_calls", 8, 10), ("session", "tokens", 80, 95)]


def test_a_warning_of_time_needs_no_call(db: SessionDB, desk: Desk, clock: Clock) -> None:
    with session_context("s", db=db, budget=Budget(seconds=10)):
        step(int)
        clock.now += 9
        while not desk.payloads("BUDGET_WARNING"):
            time.sleep(0.01)
    assert desk.payloads("BUDGET_WARNING")[0] | {"turn_id": ""} == {
        "turn_id": "",
        "scope": "turn",
        "limit": "seconds",
        "spent": 9.0,
        "allowed": 10,
    }
    assert desk.statuses() == ["completed"]


def test_a_resumed_turn_is_not_warned_again(db: SessionDB, desk: Desk) -> None:
    model = Scripted(["a", calls(("send", {"to": "Ada"})), "sent", "b", "c"])
    with pytest.raises(Suspended):
        begin(db, writes, model, Budget(model_calls=2))
    desk.approve()
    with pytest.raises(BudgetExceeded):
        resume("s", function=writes, runtime=Runtime(model), db=db)
    assert len(desk.payloads("BUDGET_WARNING")) == 1


# --- what is no budget ---


@pytest.mark.parametrize("value", [0, -1, True, float("nan"), float("inf"), "5"])
@pytest.mark.parametrize("limit", ["seconds", "model_calls", "tokens", "cost"])
def test_what_is_no_limit_is_refused(limit: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"Budget\\({limit}="):
        Budget(**{limit: value})


@pytest.mark.parametrize("limit", ["model_calls", "tokens"])
def test_what_is_counted_is_limited_by_a_whole_number(limit: str) -> None:
    with pytest.raises(UsageError, match="a whole number above 0"):
        Budget(**{limit: 1.5})


def test_of_two_budgets_the_smaller_limits_hold() -> None:
    one = Budget(seconds=5, tokens=100, session=Budget(cost=2))
    other = Budget(seconds=7, model_calls=3, session=Budget(cost=1, tokens=9))
    assert one.within(other) == Budget(seconds=5, tokens=100, model_calls=3, session=Budget(cost=1, tokens=9))
    assert Budget.from_record(one.recorded()) == one
    with pytest.raises(UsageError):
        Budget(session=one)
    with pytest.raises(SegueError, match="cannot be read"):
        Budget.from_record({"tokens": "many"})
