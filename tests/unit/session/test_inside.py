"""Sessions that are opened inside a turn: when the turn runs again they are found again, and paid for once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.errors import Cancelled, ModelError, ReplayDivergence, Suspended, TurnSettled
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime
from segue.stores.memory import MemoryStore


class Stop(SystemExit):
    """Stands for the end of the process: the turn is interrupted."""


@pytest.fixture(params=["memory", "git"])
def db(request: pytest.FixtureRequest, home: Path) -> Iterator[SessionDB]:
    opened = default_db() if request.param == "git" else SessionDB(MemoryStore())
    yield opened
    opened.close()


class Program:
    """A program in the session `s` that is run until it stops, and run again."""

    def __init__(self, db: SessionDB, function: Any) -> None:
        self._db, self._function = db, function

    def start(self, *replies: Any) -> Scripted:
        model = Scripted(list(replies))
        with (
            pytest.raises((Stop, Suspended)),
            segue.session_context("s", runtime=Runtime(model), db=self._db),
        ):
            self._called()
        return model

    def again(self, *replies: Any) -> tuple[Any, int]:
        """What it gives, and how many model calls that took."""
        model = Scripted(list(replies))
        value = segue.resume("s", function=self._function, runtime=Runtime(model), db=self._db).value
        return value, len(model.requests)

    def _called(self) -> Any:
        made = self._function("x")
        return asyncio.run(made) if asyncio.iscoroutine(made) else made

    def answer(self, session_id: str, said: Any) -> None:
        [wait] = decisions.open_waits(self._db.journal(session_id))
        decisions.answer(self._db.journal(session_id), wait.id, said)

    def turns(self, session_id: str) -> list[tuple[str, int]]:
        return [(turn.status, turn.attempt) for turn in self._db.turns(session_id).all]


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


@segue.agentic_function
def asking(name: str) -> str:
    """Ask."""
    answer: str = segue.ask_user(f"Who is {name}?")
    return answer


@segue.agentic_function
def telling(name: str, runtime: Any = None) -> str:
    """Tell."""
    answer: str = runtime.exec(f"Who is {name}?")
    return answer


def test_the_answer_to_an_inner_sessions_question_reaches_the_outer_program(db: SessionDB) -> None:
    @segue.agentic_function
    def outer(topic: str) -> str:
        """Ask elsewhere."""
        with segue.session_context("inner"):
            told = telling(topic)
            return f"{told} {asking(topic)}"

    program = Program(db, outer)
    program.start("a poet")
    assert (program.turns("s"), program.turns("inner")) == ([("suspended", 1)], [("suspended", 1)])
    program.answer("inner", "a nurse")
    assert program.again() == ("a poet a nurse", 0)
    assert (program.turns("s"), program.turns("inner")) == ([("completed", 2)], [("completed", 2)])


def test_an_inner_session_that_is_made_is_found_again(db: SessionDB) -> None:
    @segue.agentic_function
    def outer(topic: str) -> str:
        """Ask elsewhere."""
        with segue.session_context(id_prefix="sub") as session:
            return f"{session.session_id} {asking(topic)}"

    program = Program(db, outer)
    program.start()
    [made] = set(db.store.sessions()) - {"s"}
    program.answer(made, "a nurse")
    assert program.again() == (f"{made} a nurse", 0)
    assert (set(db.store.sessions()), made[:4]) == ({"s", made}, "sub_")


def test_an_inner_turn_that_was_over_is_answered_from_the_record(db: SessionDB, stop: Stopper) -> None:
    @segue.agentic_function
    def outer(topic: str) -> str:
        """Work elsewhere."""
        with segue.session_context("inner"):
            first = telling(topic)
        stop()
        with segue.session_context("inner"):
            return f"{first} {telling(topic)}"

    program = Program(db, outer)
    program.start("one")
    before = db.journal("inner").last_seq
    assert program.again("two") == ("one two", 1)
    assert program.turns("inner") == [("completed", 1), ("completed", 1)]
    assert db.journal("inner").last_seq > before


def test_what_is_over_is_looked_at_without_a_row_even_while_somebody_else_writes(
    db: SessionDB, stop: Stopper
) -> None:
    @segue.agentic_function
    async def outer(topic: str) -> str:
        """Work elsewhere."""
        async with segue.session_context("inner"):
            told = telling(topic)
        stop()
        return told

    program = Program(db, outer)
    program.start("one")
    rows = db.journal("inner").last_seq
    lease = db.journal("inner").acquire(holder="somebody else")
    model = Scripted([])
    run = asyncio.run(segue.resume("s", function=outer, runtime=Runtime(model), db=db))
    db.journal("inner").release(lease)
    assert (run.value, db.journal("inner").last_seq) == ("one", rows)


def test_a_wait_inside_suspends_the_outer_turn_whatever_its_code_makes_of_the_signal(db: SessionDB) -> None:
    ran = []

    @segue.agentic_function
    def outer(topic: str) -> str:
        """Swallow everything."""
        try:
            with segue.session_context("inner"):
                return asking(topic)
        except BaseException:
            ran.append("handler")
        with pytest.raises(Suspended):
            telling(topic)
        return "nobody knows"

    program = Program(db, outer)
    program.start()
    assert (program.turns("s"), ran) == ([("suspended", 1)], ["handler"])
    program.answer("inner", "a nurse")
    assert program.again() == ("a nurse", 0)


def test_a_failure_inside_that_the_program_went_on_after_is_not_paid_for_again(
    db: SessionDB, stop: Stopper
) -> None:
    @segue.agentic_function
    def outer(topic: str) -> str:
        """Try twice."""
        try:
            with segue.session_context("inner"):
                telling(topic)
        except ModelError:
            with segue.session_context("inner"):
                told = telling(topic)
        stop()
        return told

    program = Program(db, outer)
    program.start({"error": {"type": "bad_request", "message": "no"}}, "a poet")
    assert program.turns("inner") == [("failed", 1), ("completed", 1)]
    assert program.again() == ("a poet", 0)
    assert program.turns("inner") == [("failed", 1), ("completed", 1)]


def test_a_function_that_failed_with_its_inner_session_is_done_over_with_it(
    db: SessionDB, stop: Stopper
) -> None:
    @segue.agentic_function
    def part(topic: str) -> str:
        """Work elsewhere."""
        with segue.session_context("inner"):
            return telling(topic)

    @segue.agentic_function
    def outer(topic: str) -> str:
        """Stop when a part fails."""
        try:
            return part(topic)
        except ModelError:
            stop()
            raise

    program = Program(db, outer)
    program.start({"error": {"type": "bad_request", "message": "no"}})
    assert program.again("a poet") == ("a poet", 1)
    assert program.turns("inner") == [("failed", 1), ("completed", 1)]


def test_equal_sessions_in_gathered_tasks_keep_their_own(db: SessionDB) -> None:
    @segue.agentic_function
    async def outer(topic: str) -> list[Any]:
        """Ask several."""
        runs = await asyncio.gather(*(asking_later.run(name) for name in ("Ada", "Bob", "Cyd")))
        return sorted(run.value for run in runs)

    @segue.agentic_function
    async def asking_later(name: str) -> str:
        """Ask."""
        await asyncio.sleep({"Ada": 0.02, "Bob": 0.01, "Cyd": 0}[name])
        answer: str = segue.ask_user(f"Who is {name}?")
        return f"{name} is {answer}"

    program = Program(db, outer)
    program.start()
    inner = set(db.store.sessions()) - {"s"}
    answered = []
    while program.turns("s")[0][0] == "suspended":
        for session_id in inner:
            for wait in decisions.open_waits(db.journal(session_id)):
                answered.append(wait.name)
                decisions.answer(db.journal(session_id), wait.id, f"{wait.name[7:-1]}'s")
        with contextlib.suppress(Suspended):
            run = asyncio.run(segue.resume("s", function=outer, runtime=Runtime(Scripted([])), db=db))
    assert run.value == ["Ada is Ada's", "Bob is Bob's", "Cyd is Cyd's"]
    assert sorted(answered) == ["Who is Ada?", "Who is Bob?", "Who is Cyd?"]
    assert set(db.store.sessions()) - {"s"} == inner


def test_a_question_two_sessions_further_in_reaches_the_program(db: SessionDB) -> None:
    @segue.agentic_function
    def middle(topic: str) -> str:
        """Hand on."""
        answer: str = asking.run(topic).value
        return f"middle {answer}"

    @segue.agentic_function
    def outer(topic: str) -> str:
        """Hand on."""
        answer: str = middle.run(topic).value
        return f"outer {answer}"

    program = Program(db, outer)
    program.start()
    [innermost] = [name for name in db.store.sessions() if decisions.open_waits(db.journal(name))]
    program.answer(innermost, "a nurse")
    assert program.again() == ("outer middle a nurse", 0)
    assert len(db.store.sessions()) == 3


def test_an_inner_turn_that_somebody_cancelled_is_cancelled_for_the_outer_program_too(db: SessionDB) -> None:
    @segue.agentic_function
    def outer(topic: str) -> str:
        """Ask elsewhere."""
        with segue.session_context("inner"):
            return asking(topic)

    program = Program(db, outer)
    program.start()
    with segue.session_context("inner", runtime=Runtime(Scripted(["new"])), db=db):
        telling("somebody")  # a new turn: the question is not to be answered any more
    with pytest.raises(Cancelled):
        program.again()
    assert [status for status, _ in program.turns("s")] == ["cancelled"]
    assert [status for status, _ in program.turns("inner")] == ["cancelled", "completed"]


def test_a_program_that_goes_further_than_its_inner_turn_did_has_changed(
    db: SessionDB, stop: Stopper
) -> None:
    more = []

    @segue.agentic_function
    def outer(topic: str) -> str:
        """Work elsewhere."""
        with segue.session_context("inner"):
            told = telling(topic)
            for name in more:
                telling(name)
        stop()
        return told

    program = Program(db, outer)
    program.start("one")
    more.append("Bob")
    with pytest.raises(ReplayDivergence, match="is over"):
        program.again("two")
    assert [status for status, _ in program.turns("s")] == ["interrupted"]
    more.clear()
    assert program.again() == ("one", 0)


def test_a_turn_that_is_named_is_opened_once(db: SessionDB) -> None:
    with segue.session_context("s", db=db, runtime=Runtime(Scripted(["one", "two"]))):
        with segue.session_context("inner", turn_id="mine"):
            telling("Ada")
        with pytest.raises(TurnSettled), segue.session_context("inner", turn_id="mine"):
            pass


def test_an_inner_session_is_kept_where_the_outer_one_is(db: SessionDB) -> None:
    with segue.session_context("s", db=db, runtime=Runtime(Scripted(["one"]))):
        run = telling.run("Ada")
    assert run.session_id in db.store.sessions()


def test_a_finished_inner_call_gives_its_steps_again_where_its_value_is_no_json(
    db: SessionDB, stop: Stopper
) -> None:
    @segue.agentic_function
    def odd(name: str, runtime: Any = None) -> Any:
        """Give what no JSON can say."""
        return {runtime.exec(f"Who is {name}?")}

    @segue.agentic_function
    def outer(topic: str) -> list[str]:
        """Work elsewhere."""
        with segue.session_context("inner"):
            told = odd(topic)
        stop()
        return sorted(told)

    program = Program(db, outer)
    program.start("one")
    assert program.again() == (["one"], 0)
    statuses = {node.status for node in db.journal("inner").view(CallGraph).nodes.values()}
    assert statuses == {"completed"}
