"""A turn is suspended because it waits, whatever its code makes of the signal: what that gives is discarded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import segue
from segue.agents.function import agentic_function
from segue.agents.resume import resume
from segue.errors import Suspended
from segue.fold.graph import TERMINAL, CallGraph
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.session.waits import ask_user
from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "git"])
def sessions(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    opened = SessionDB(MemoryStore() if request.param == "memory" else GitStore(tmp_path / "sessions"))
    yield opened
    opened.close()


def run(db: SessionDB, function: Any, *replies: str) -> None:
    async def begin() -> None:
        async with segue.session_context("s", runtime=Runtime(Scripted(list(replies))), db=db):
            await function("x")

    with pytest.raises(Suspended):
        asyncio.run(begin())
    assert db.turns("s").all[-1].status == "suspended"


def go_on(db: SessionDB, function: Any, *replies: str) -> Any:
    for wait in decisions.open_waits(db.journal("s")):
        decisions.answer(db.journal("s"), wait.id, "yes")
    model = Runtime(Scripted(list(replies)))
    return asyncio.run(_awaited(resume("s", function=function, runtime=model, db=db))).value


async def _awaited(running: Any) -> Any:
    return await running


def ended(db: SessionDB) -> dict[str, list[str]]:
    """How each call of a function ended, each time."""
    graph, found = db.journal("s").view(CallGraph), dict[str, list[str]]()
    for row in db.read("s"):
        if row.type == "CALL_ENDED" and (node := graph.nodes[row.payload["node_id"]]).kind == "function":
            found.setdefault(node.name.rpartition(".")[2], []).append(row.payload["status"])
    return found


@agentic_function
async def asks(topic: str) -> str:
    """Ask."""
    answer: str = ask_user(f"Is {topic} right?")
    return answer


def test_what_a_task_gives_that_swallows_its_cancellation_is_no_result(sessions: SessionDB) -> None:
    @agentic_function
    async def stubborn(topic: str, runtime: Any = None) -> str:
        """Wait, and do not mind being stopped."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0 if again else 60)
            return "done"
        return "half"

    @agentic_function
    async def both(topic: str) -> str:
        """Both at once."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(stubborn(topic)), group.create_task(asks(topic))]
        return " ".join(task.result() for task in tasks)

    again = False
    run(sessions, both)
    assert ended(sessions)["stubborn"] == ["suspended"]
    again = True
    assert go_on(sessions, both) == "done yes"


@pytest.mark.parametrize("how", ["except", "finally"])
def test_code_after_a_swallowed_signal_is_not_called_with_what_it_left(sessions: SessionDB, how: str) -> None:
    told: list[str] = []

    @agentic_function
    async def deaf(topic: str) -> str:
        """Swallow everything."""
        said = "nothing"
        if how == "except":
            with contextlib.suppress(BaseException):
                said = await asks(topic)
            return said
        try:
            said = await asks(topic)
        finally:
            return said  # noqa: B012 - that is what it is about

    @agentic_function
    async def outer(topic: str) -> str:
        """Go on with what came of it."""
        said = await deaf(topic)
        told.append(said)
        return said

    run(sessions, outer)
    assert told == []
    assert go_on(sessions, outer) == "yes"
    assert told == ["yes"]


def test_a_program_that_goes_on_after_a_swallowed_signal_has_not_changed(sessions: SessionDB) -> None:
    """It comes by other calls than the record has there, because it left some out."""

    @agentic_function
    async def deaf(topic: str, runtime: Any = None) -> str:
        """Swallow two questions, one after the other, then go on."""
        said = []
        for number in range(2):
            with contextlib.suppress(BaseException):
                said.append(await asks(f"{topic}{number}"))
        with contextlib.suppress(BaseException):
            said.append(await runtime.aexec("Go on"))
        return " ".join(said)

    run(sessions, deaf)
    for wait in decisions.open_waits(sessions.journal("s")):
        decisions.answer(sessions.journal("s"), wait.id, "first")
    with pytest.raises(Suspended):
        asyncio.run(_awaited(resume("s", function=deaf, runtime=Runtime(Scripted([])), db=sessions)))
    assert sessions.turns("s").all[-1].status == "suspended"
    assert go_on(sessions, deaf, "on") == "first yes on"


def test_a_turn_that_is_over_leaves_no_call_open(sessions: SessionDB) -> None:
    @agentic_function
    async def slow(topic: str) -> str:
        """Take long."""
        await asyncio.sleep(60)
        return topic

    @agentic_function
    async def hurried(topic: str) -> str:
        """Give up."""
        task = asyncio.create_task(slow(topic))
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(slow(topic), 0.01)
        except TimeoutError:
            left.append(task)
            return "late"

    left: list[Any] = []

    async def begin() -> str:
        async with segue.session_context("s", db=sessions):
            said: str = await hurried("x")
        return said

    assert asyncio.run(begin()) == "late"
    assert sessions.turns("s").all[-1].status == "completed"
    assert {node.status for node in sessions.journal("s").view(CallGraph).nodes.values()} <= TERMINAL


def test_a_bound_generator_that_holds_a_suspended_turn_lets_its_model_calls_end(sessions: SessionDB) -> None:
    @agentic_function
    async def asked(topic: str, runtime: Any = None) -> str:
        """Ask the model."""
        answer: str = await runtime.aexec(topic)
        return answer

    async def one_by_one(topic: str) -> AsyncIterator[str]:
        yield await asked(topic)

    @agentic_function
    async def streams(topic: str) -> str:
        """Stream."""
        return "".join([said async for said in segue.bind(one_by_one(topic))])

    @agentic_function
    async def both(topic: str) -> str:
        """Both at once."""
        return " ".join(await asyncio.gather(streams(topic), asks(topic)))

    run(sessions, both, "paid")
    graph = sessions.journal("s").view(CallGraph)
    assert [node.status for node in graph.nodes.values() if node.kind == "model"] in ([], ["completed"])
    replies = [] if any(node.kind == "model" for node in graph.nodes.values()) else ["paid"]
    assert go_on(sessions, both, *replies) == "paid yes"
