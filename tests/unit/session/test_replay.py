"""A turn that stopped runs again: finished steps are answered from the record, and execution goes on where it was."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

import segue
from segue.agents.function import agentic_function
from segue.agents.resume import resume
from segue.errors import (
    AlreadyDecided,
    NotResumable,
    NotWaiting,
    ReplayDivergence,
    SegueError,
    Suspended,
    TurnSettled,
    UsageError,
)
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.session.waits import ask_user
from segue.tools.tool import tool


class Stop(SystemExit):
    """Stands for the end of the process: the turn is interrupted."""


class Stopper:
    """Stops the program the first time it comes by."""

    def __init__(self) -> None:
        self.stopped = False

    def __call__(self) -> None:
        if not self.stopped:
            self.stopped = True
            raise Stop


@pytest.fixture
def stop() -> Stopper:
    return Stopper()


def start(function: Any, *replies: Any, **arguments: Any) -> Scripted:
    """Run until it stops."""
    model = Scripted(list(replies))
    with pytest.raises((Stop, Suspended)):
        function.run(session_id="s", runtime=Runtime(model), **arguments)
    return model


def go_on(function: Any, *replies: Any) -> tuple[Any, Scripted]:
    model = Scripted(list(replies))
    return resume("s", function=function, runtime=Runtime(model)).value, model


def statuses(db: SessionDB) -> list[str]:
    return [turn.status for turn in db.turns("s").all]


def conversation(db: SessionDB) -> list[tuple[str, Any]]:
    return [
        (message["role"], message["content"]) for message in db.journal("s").view(Conversation).messages()
    ]


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


def count(db: SessionDB, kind: str) -> int:
    return sum(row.type == kind for row in db.read("s"))


# --- functions and model calls ---


def two_questions(pause: Callable[[], None]) -> Any:
    @agentic_function
    def part(topic: str, runtime: Any = None) -> str:
        """Write one part."""
        answer: str = runtime.exec(f"Part on {topic}")
        return answer

    @agentic_function
    def whole(topic: str, runtime: Any = None) -> str:
        """Write it all."""
        first = part(topic)
        pause()
        second: str = runtime.exec(f"Go on from: {first}")
        return f"{first} {second}"

    return whole


def test_finished_calls_are_answered_and_only_the_rest_is_asked(db: SessionDB, stop: Stopper) -> None:
    whole = two_questions(stop)
    start(whole, "one", topic="tides")
    value, model = go_on(whole, "two")
    assert (value, len(model.requests), statuses(db)) == ("one two", 1, ["completed"])
    assert conversation(db) == [("user", "tides"), ("assistant", "one two")]


def test_a_resumed_program_sends_what_it_would_have_sent(db: SessionDB, stop: Stopper) -> None:
    start(two_questions(stop), "one", topic="tides")
    _, resumed = go_on(two_questions(lambda: None), "two")
    straight = Scripted(["one", "two"])
    two_questions(lambda: None).run(topic="tides", session_id="other", runtime=Runtime(straight))
    assert resumed.requests[-1].messages == straight.requests[-1].messages


def test_nodes_keep_their_ids_and_count_attempts(db: SessionDB, stop: Stopper) -> None:
    whole = two_questions(stop)
    start(whole, "one", topic="tides")
    before = list(db.journal("s").view(CallGraph).nodes)
    go_on(whole, "two")
    nodes = db.journal("s").view(CallGraph).nodes
    assert list(nodes)[: len(before)] == before
    assert [(node.kind, node.status, node.attempt) for node in nodes.values()] == [
        ("function", "completed", 2),
        ("function", "completed", 1),
        ("model", "completed", 1),
        ("model", "completed", 1),
    ]


def test_a_turn_can_stop_and_go_on_many_times(db: SessionDB) -> None:
    stops = [Stopper() for _ in range(4)]

    @agentic_function
    def chain(topic: str, runtime: Any = None) -> str:
        """Think in steps."""
        said = []
        for number, stop in enumerate(stops):
            said.append(runtime.exec(f"Step {number} of {topic}"))
            stop()
        return " ".join(said)

    start(chain, "0", topic="x")
    for number in (1, 2, 3):
        with pytest.raises(Stop):
            go_on(chain, str(number))
    assert go_on(chain)[0] == "0 1 2 3"
    assert db.turns("s").all[0].attempt == 5


def test_a_settled_turn_is_over(db: SessionDB) -> None:
    whole = two_questions(lambda: None)
    run = whole.run(topic="x", session_id="s", runtime=Runtime(Scripted(["one", "two"])))
    with pytest.raises(NotResumable, match="over"):
        go_on(whole)
    with pytest.raises(TurnSettled), session_context("s", turn_id=run.turn_id):
        pass


def test_a_result_that_is_no_json_is_made_again_from_recorded_steps(db: SessionDB, stop: Stopper) -> None:
    @agentic_function
    def counted(topic: str, runtime: Any = None) -> set[str]:
        """Count."""
        return {runtime.exec(topic), "b"}

    @agentic_function
    def unannotated(topic: str, runtime: Any = None):  # type: ignore[no-untyped-def]
        """Count."""
        return (runtime.exec(topic), 2)

    @agentic_function
    def outer(topic: str) -> str:
        """Do both."""
        first, second = counted(topic), unannotated(topic)
        stop()
        assert (first, second) == ({"a", "b"}, ("c", 2))
        return "right"

    start(outer, "a", "c", topic="x")
    assert go_on(outer)[0] == "right"


@dataclasses.dataclass
class Point:
    x: int
    y: int


def test_a_result_comes_back_as_its_annotation_says(db: SessionDB, stop: Stopper) -> None:
    made: list[Point] = []

    @agentic_function
    def where(name: str) -> Point:
        """Say where."""
        made.append(Point(1, 2))
        return made[-1]

    @agentic_function
    def outer(name: str) -> list[int]:
        """Ask."""
        point = where(name)
        stop()
        return [point.x, point.y]

    start(outer, name="here")
    assert go_on(outer)[0] == [1, 2]
    assert len(made) == 1


def test_gathered_branches_go_on_each_where_it_was(db: SessionDB, stop: Stopper) -> None:
    @agentic_function
    async def branch(name: str, runtime: Any = None) -> str:
        """One branch."""
        first = await runtime.aexec(f"{name} first")
        if name == "b":
            stop()
        return f"{first}{await runtime.aexec(f'{name} second')}"

    @agentic_function
    async def both(topic: str) -> list[str]:
        """Both branches."""
        return list(await asyncio.gather(branch("a"), branch("b"), branch("c")))

    def answers(request: Any) -> str:
        return f"<{request.messages[-1]['content']}>"

    model = Scripted([answers] * 10)

    with pytest.raises(Stop):
        asyncio.run(both.run("x", session_id="s", runtime=Runtime(model)))
    again = Scripted([answers] * 10)
    value = asyncio.run(resume("s", function=both, runtime=Runtime(again))).value
    assert value == [f"<{name} first><{name} second>" for name in "abc"]
    asked = [request.messages[-1]["content"] for request in (*model.requests, *again.requests)]
    finished = [
        node
        for node in db.journal("s").view(CallGraph).nodes.values()
        if (node.kind, node.status) == ("model", "completed")
    ]
    assert len(finished) == 6
    assert len(asked) <= 8, "only calls in flight when it stopped are made again"


def test_a_failure_that_was_caught_fails_again_without_being_paid(db: SessionDB, stop: Stopper) -> None:
    @agentic_function
    def careful(topic: str, runtime: Any = None) -> str:
        """Try."""
        try:
            runtime.exec("hard", retries=0)
        except SegueError as error:
            caught = type(error).__name__
        answer: str = runtime.exec(f"after {caught}")
        stop()
        return answer

    start(careful, {"error": {"type": "bad_request", "message": "no"}}, "soft", topic="x")
    value, model = go_on(careful)
    assert (value, model.requests) == ("soft", [])


def test_a_failing_function_that_was_caught_fails_again(db: SessionDB, stop: Stopper) -> None:
    class OwnError(Exception):
        pass

    ran: list[str] = []

    @agentic_function
    def broken(topic: str, runtime: Any = None) -> str:
        """Break."""
        ran.append(runtime.exec(topic))
        raise OwnError(topic)

    @agentic_function
    def outer(topic: str, runtime: Any = None) -> str:
        """Try."""
        try:
            broken(topic)
        except OwnError as error:
            return f"caught {error}: {_after(runtime, stop)}"
        return "nothing"

    start(outer, "one", "two", topic="x")
    value, model = go_on(outer)
    assert (value, model.requests, ran) == ("caught x: two", [], ["one", "one"])


def _after(runtime: Any, stop: Stopper) -> str:
    answer: str = runtime.exec("and then?")
    stop()
    return answer


def test_a_program_that_does_something_else_is_told(db: SessionDB, stop: Stopper) -> None:
    start(two_questions(stop), "one", topic="tides")

    @agentic_function
    def other(topic: str, runtime: Any = None) -> str:
        """Write it all."""
        answer: str = runtime.exec("Something else")
        return answer

    other.name = "elsewhere:other"
    root = db.journal("s").view(CallGraph).roots()[0]
    other.name = root.name
    with pytest.raises(ReplayDivergence, match="the program does something else"):
        go_on(other, "unused")


def test_arguments_that_do_not_decode_are_refused(db: SessionDB, stop: Stopper) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "odd"

    @agentic_function
    def takes(thing: Odd) -> str:
        """Take it."""
        stop()
        return "done"

    with pytest.raises(Stop):
        takes.run(Odd(), session_id="s")
    with pytest.raises((NotResumable, SegueError)):
        go_on(takes)


def test_code_that_is_no_function_replays_when_it_is_run_again(db: SessionDB, stop: Stopper) -> None:
    def program(turn_id: str | None, *replies: str) -> list[str]:
        model = Scripted(list(replies))
        with session_context("s", turn_id=turn_id, runtime=Runtime(model)) as session:
            assert session.runtime is not None
            first = session.runtime.exec("first")
            stop()
            return [first, session.runtime.exec("second")]

    with pytest.raises(Stop):
        program("t1", "one")
    with pytest.raises(NotResumable, match="turn_id='t1'"):
        resume("s")
    assert program("t1", "two") == ["one", "two"]
    assert conversation(db) == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]


# --- steps ---


def test_steps_times_and_ids_are_the_first_ones(db: SessionDB, stop: Stopper) -> None:
    seen: list[Any] = []
    done: list[int] = []

    def effect(amount: int) -> int:
        done.append(amount)
        return amount * 2

    @agentic_function
    def program(topic: str) -> str:
        """Use steps."""
        seen.append((segue.step(effect, 21), segue.now(), segue.uuid()))
        stop()
        return "done"

    start(program, topic="x")
    go_on(program)
    assert (done, seen[0], seen[0][0]) == ([21], seen[1], 42)


def test_an_async_step_is_awaited_and_recorded(db: SessionDB) -> None:
    async def effect() -> str:
        return "done"

    async def program() -> Any:
        async with session_context("s"):
            return await segue.step(effect)

    assert asyncio.run(program()) == "done"
    [node] = db.journal("s").view(CallGraph).nodes.values()
    assert (node.kind, node.status, node.result) == ("step", "completed", "done")


# --- questions ---


@agentic_function
def asks(topic: str, runtime: Any = None) -> str:
    """Ask first."""
    plan = runtime.exec(f"Plan {topic}")
    name = ask_user(f"Whom to send {plan}?", options=["Ada", "Bo"])
    answer: str = runtime.exec(f"Send it to {name}")
    return answer


def test_an_answer_lets_the_turn_go_on(db: SessionDB) -> None:
    start(asks, "the plan", topic="x")
    [wait] = decisions.open_waits(db.journal("s"))
    assert (wait.kind, wait.name, wait.options) == ("question", "Whom to send the plan?", ["Ada", "Bo"])
    decisions.answer(db.journal("s"), wait.id, "Ada", by="me")
    value, model = go_on(asks, "sent")
    assert (value, model.requests[0].messages[-1]["content"]) == ("sent", "Send it to Ada")
    assert [row.payload["reason"] for row in db.read("s") if row.type == "INVOCATION_STARTED"] == [
        {"kind": "direct_call", "input": "x"},
        {"kind": "question_answer", "question_id": wait.id},
    ]


def test_a_turn_that_still_waits_is_not_run(db: SessionDB) -> None:
    start(asks, "the plan", topic="x")
    rows = db.journal("s").last_seq
    with pytest.raises(Suspended):
        go_on(asks)
    assert db.journal("s").last_seq == rows


def test_of_two_that_go_on_at_once_the_second_pays_nothing(db: SessionDB) -> None:
    """Both read the record before either has the lease: what the second one knows is not all there is by then."""
    start(asks, "the plan", topic="x")
    turn_id = db.turns("s").all[0].turn_id
    decisions.answer(db.journal("s"), decisions.open_waits(db.journal("s"))[0].id, "Ada")
    first, second = Scripted(["sent"]), Scripted(["sent twice"])
    opened = [session_context("s", turn_id=turn_id, runtime=Runtime(model)) for model in (first, second)]
    contexts = [contextvars.copy_context() for _ in opened]
    for context, session in zip(contexts, opened, strict=True):
        context.run(session.__enter__)
    assert contexts[0].run(asks, "x") == "sent"
    contexts[0].run(opened[0].__exit__, None, None, None)
    rows = db.journal("s").last_seq
    for leave in (lambda: asks("x"), lambda: opened[1].__exit__(None, None, None)):
        with pytest.raises(TurnSettled, match="by somebody else meanwhile"):
            contexts[1].run(leave)
    assert (len(first.requests), second.requests, db.journal("s").last_seq) == (1, [], rows)
    assert db.store.holder("s") is None


def test_only_an_option_answers_a_question_with_options(db: SessionDB) -> None:
    start(asks, "the plan", topic="x")
    [wait] = decisions.open_waits(db.journal("s"))
    with pytest.raises(UsageError, match="one of: Ada, Bo"):
        decisions.answer(db.journal("s"), wait.id, "Cy")
    assert decisions.open_waits(db.journal("s")) == [wait]


def test_the_first_answer_counts_and_the_second_is_told(db: SessionDB) -> None:
    start(asks, "the plan", topic="x")
    [wait] = decisions.open_waits(db.journal("s"))
    decisions.answer(db.journal("s"), wait.id, "Ada")
    with pytest.raises(AlreadyDecided) as told:
        decisions.answer(db.journal("s"), wait.id, "Bo")
    assert (told.value.decision, count(db, "QUESTION_ANSWERED")) == ("answered", 1)


def test_what_nobody_asked_cannot_be_answered(db: SessionDB) -> None:
    start(asks, "the plan", topic="x")
    with pytest.raises(NotWaiting, match="no question 'q'"):
        decisions.answer(db.journal("s"), "q", "Ada")


def test_a_signal_that_the_code_swallows_suspends_all_the_same(db: SessionDB) -> None:
    @agentic_function
    def stubborn(topic: str) -> str:
        """Never give up."""
        with contextlib.suppress(BaseException):
            ask_user("Really?")
        return "went on without"

    start(stubborn, topic="x")
    assert (statuses(db), conversation(db)) == (["suspended"], [("user", "x")])
    [wait] = decisions.open_waits(db.journal("s"))
    decisions.answer(db.journal("s"), wait.id, "yes")
    assert go_on(stubborn)[0] == "went on without"
    assert statuses(db) == ["completed"]


# --- approvals ---


class Desk:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.noted: list[str] = []

    @property
    def work(self) -> Any:
        @tool(needs_approval=True)
        def send(to: str, text: str = "hello") -> str:
            """Send a letter."""
            self.sent.append(f"{to}: {text}")
            return "sent"

        def note(text: str) -> str:
            self.noted.append(text)
            return "noted"

        @agentic_function
        def work(topic: str, runtime: Any = None) -> str:
            """Use the desk."""
            answer: str = runtime.exec(topic, tools=[send, note])
            return answer

        return work


@pytest.fixture
def desk() -> Desk:
    return Desk()


def waiting(db: SessionDB) -> list[tuple[str, str]]:
    return [(wait.kind, wait.id) for wait in decisions.open_waits(db.journal("s"))]


def told(model: Scripted) -> list[str]:
    return [message["content"] for message in model.requests[0].messages if message["role"] == "tool"]


def test_an_approved_call_runs_once_and_its_siblings_not_again(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"}), ("note", {"text": "n"})), topic="x")
    assert (desk.sent, desk.noted, waiting(db)) == ([], ["n"], [("approval", "call_1_1")])
    decisions.approve(db.journal("s"), "call_1_1", approver="me")
    value, model = go_on(desk.work, "All done.")
    assert (value, desk.sent, desk.noted) == ("All done.", ["Ada: hello"], ["n"])
    assert told(model) == ["sent", "noted"]


def test_a_denied_call_never_runs_and_the_model_gets_the_words(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    decisions.deny(db.journal("s"), "call_1_1", reason="Not today.")
    value, model = go_on(desk.work, "Then not.")
    assert (value, desk.sent) == ("Then not.", [])
    assert told(model) == ["The reviewer denied this call; it did not run. Not today."]


def test_edited_arguments_run_and_the_model_is_told(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    decisions.approve(db.journal("s"), "call_1_1", arguments={"to": "Bo", "text": "hi"})
    _, model = go_on(desk.work, "Done.")
    assert desk.sent == ["Bo: hi"]
    assert told(model) == [
        'The reviewer changed the arguments to {"to":"Bo","text":"hi"} before this ran.\nsent'
    ]


def test_several_calls_are_decided_in_any_order(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(*(("send", {"to": name}) for name in ("Ada", "Bo", "Cy"))), topic="x")
    journal = db.journal("s")
    decisions.approve(journal, "call_1_3")
    decisions.deny(journal, "call_1_1")
    with pytest.raises(Suspended):
        go_on(desk.work)
    decisions.approve(journal, "call_1_2")
    go_on(desk.work, "Done.")
    assert sorted(desk.sent) == ["Bo: hello", "Cy: hello"]


def test_a_grant_that_expired_asks_again(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    decisions.approve(db.journal("s"), "call_1_1", expires_at="2020-01-01T00:00:00Z")
    with pytest.raises(Suspended):
        go_on(desk.work)
    assert (desk.sent, waiting(db)) == ([], [("approval", "call_1_1")])
    decisions.approve(db.journal("s"), "call_1_1")
    go_on(desk.work, "Done.")
    assert desk.sent == ["Ada: hello"]


def test_a_grant_for_other_arguments_opens_nothing(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    forged = segue.events.ToolApprovalGranted(tool_call_id="call_1_1", digest="0" * 64)
    db.journal("s").append(forged)
    with pytest.raises(Suspended):
        go_on(desk.work)
    assert (desk.sent, count(db, "TOOL_APPROVAL_REQUIRED")) == ([], 2)


def test_a_grant_is_good_for_one_call_only(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    decisions.approve(db.journal("s"), "call_1_1")
    with pytest.raises(Suspended):
        go_on(desk.work, calls(("send", {"to": "Ada"})))
    assert (desk.sent, len(waiting(db))) == (["Ada: hello"], 1)


def test_racing_decisions_have_one_winner(db: SessionDB, desk: Desk) -> None:
    start(desk.work, calls(("send", {"to": "Ada"})), topic="x")
    journal, meeting = db.journal("s"), threading.Barrier(8)
    outcomes: list[str] = []

    def decide(number: int) -> None:
        meeting.wait()
        try:
            decisions.approve(journal, "call_1_1") if number % 2 else decisions.deny(journal, "call_1_1")
        except AlreadyDecided:
            outcomes.append("told")
        else:
            outcomes.append("won")

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["told"] * 7 + ["won"]
    assert count(db, "TOOL_APPROVAL_GRANTED") + count(db, "TOOL_APPROVAL_DENIED") == 1


def test_an_approval_deep_inside_a_tool_that_is_a_function(db: SessionDB, desk: Desk) -> None:
    work = desk.work

    @agentic_function
    def boss(topic: str, runtime: Any = None) -> str:
        """Delegate."""
        answer: str = runtime.exec(topic, tools=[work])
        return answer

    start(boss, calls(("work", {"topic": "letter"})), calls(("send", {"to": "Ada"})), topic="x")
    [(_, call_id)] = waiting(db)
    decisions.approve(db.journal("s"), call_id)
    value, model = go_on(boss, "letter sent", "all good")
    assert (value, desk.sent, len(model.requests)) == ("all good", ["Ada: hello"], 2)


# --- signals through other code ---


def test_a_task_group_whose_task_waits_suspends_and_goes_on(db: SessionDB) -> None:
    @agentic_function
    async def quick(name: str, runtime: Any = None) -> str:
        """Answer."""
        answer: str = await runtime.aexec(name)
        return answer

    @agentic_function
    async def slow(name: str) -> str:
        """Never done while somebody waits."""
        await asyncio.sleep(0.05)
        return f"slow {name}"

    @agentic_function
    async def asking(name: str) -> str:
        """Ask."""
        answer: str = ask_user(f"Who is {name}?")
        return answer

    @agentic_function
    async def all_of(topic: str) -> list[str]:
        """Do all."""
        first = await quick("first")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(made) for made in (quick("second"), slow("third"), asking("Ada"))]
        return [first, *(task.result() for task in tasks)]

    model = Scripted(["one", "two"])
    with pytest.raises(Suspended):
        asyncio.run(all_of.run("x", session_id="s", runtime=Runtime(model)))
    assert statuses(db) == ["suspended"]
    [wait] = decisions.open_waits(db.journal("s"))
    decisions.answer(db.journal("s"), wait.id, "a poet")
    again = Scripted(["two"])
    value = asyncio.run(resume("s", function=all_of, runtime=Runtime(again))).value
    assert value == ["one", "two", "slow third", "a poet"]
    graph = db.journal("s").view(CallGraph)
    assert {node.status for node in graph.nodes.values()} == {"completed"}


def test_in_threads_one_waits_and_the_others_are_done(db: SessionDB) -> None:
    @agentic_function
    def asking(name: str) -> str:
        """Ask."""
        answer: str = ask_user(f"Who is {name}?")
        return answer

    @agentic_function
    def telling(name: str) -> str:
        """Tell."""
        return f"told {name}"

    @agentic_function
    def all_of(topic: str) -> list[str]:
        """Do all."""
        with segue.ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(telling, "a"), pool.submit(asking, "b")]
            return [future.result() for future in futures]

    start(all_of, topic="x")
    [wait] = decisions.open_waits(db.journal("s"))
    decisions.answer(db.journal("s"), wait.id, "nobody")
    assert go_on(all_of)[0] == ["told a", "nobody"]


def test_a_wait_of_an_inner_session_suspends_the_outer_turn(db: SessionDB) -> None:
    @agentic_function
    def asking(name: str) -> str:
        """Ask."""
        answer: str = ask_user(f"Who is {name}?")
        return answer

    @agentic_function
    def outer(topic: str) -> str:
        """Work elsewhere."""
        with session_context("inner"):
            return asking(topic)

    start(outer, topic="x")
    assert statuses(db) == ["suspended"]
    assert [turn.status for turn in db.turns("inner").all] == ["suspended"]


def test_a_finished_call_that_is_not_made_again_is_reported(
    db: SessionDB, stop: Stopper, caplog: pytest.LogCaptureFixture
) -> None:
    gathered = [True]

    @agentic_function
    async def one(name: str, runtime: Any = None) -> str:
        """Answer."""
        answer: str = await runtime.aexec(name)
        return answer

    @agentic_function
    async def both(topic: str) -> str:
        """Both, or one."""
        names = ["a", "b"] if gathered[0] else ["a"]
        said = await asyncio.gather(*(one(name) for name in names))
        stop()
        return "".join(said)

    with pytest.raises(Stop):
        asyncio.run(both.run("x", session_id="s", runtime=Runtime(Scripted(["x", "x"]))))
    gathered[0] = False
    assert asyncio.run(resume("s", function=both, runtime=Runtime(Scripted([])))).value == "x"
    assert "did not make a call again" in caplog.text
