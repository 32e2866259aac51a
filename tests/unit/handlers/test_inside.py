"""Sub-agents with sessions of their own: driven inside a turn, they are found again when that turn goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from handling import Desk, calls

import segue
from segue import chat_agent, drive
from segue.errors import ModelError, Suspended
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.runtime import Runtime

RAN: list[str] = []


@segue.tool(needs_approval=True)
def publish(text: str) -> str:
    """Publish it."""
    RAN.append(text)
    return f"published {text}"


@segue.tool
async def edit(text: str) -> str:
    """Have a text edited and published."""
    run = await drive(chat_agent(tools=[publish]), "editing", input=text).finish()
    return f"The editor says: {run.value}"


AUTHOR = chat_agent(tools=[edit])
TO_EDITOR = calls(("edit", {"text": "a poem"}))
TO_PUBLISH = calls(("publish", {"text": "a better poem"}))


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def approve(desk: Desk, session_id: str) -> None:
    [wait] = decisions.open_waits(desk.db.journal(session_id))
    decisions.approve(desk.db.journal(session_id), wait.id)


def test_an_approval_in_a_sub_agent_suspends_both_and_lets_both_go_on(desk: Desk) -> None:
    model = Scripted([TO_EDITOR, TO_PUBLISH, "it is out", "done"])
    driven = desk.run(AUTHOR, "Write.", model=model)
    assert (driven.status, desk.statuses("editing"), RAN) == ("suspended", ["suspended"], [])
    [last] = [row for row in desk.rows() if row.type == "TURN_SUSPENDED"]
    assert set(last.payload["elsewhere"].values()) == {"editing"}
    approve(desk, "editing")
    assert desk.run(AUTHOR, model=model).value == "done"
    assert (RAN, len(model.requests)) == (["a better poem"], 4)
    assert (desk.statuses(), desk.statuses("editing")) == (["completed"], ["completed"])
    assert desk.told("editing")[0] == ("user", "a poem")
    assert [role for role, _ in desk.told("editing")].count("user") == 1


def test_it_is_not_run_again_while_the_sub_agent_still_waits(desk: Desk) -> None:
    model = Scripted([TO_EDITOR, TO_PUBLISH])
    desk.run(AUTHOR, "Write.", model=model)
    rows = len(desk.rows())
    [wait] = decisions.open_waits(desk.db.journal("editing"))
    with pytest.raises(Suspended, match="of session editing"):
        asyncio.run(drive(AUTHOR, "s", runtime=Runtime(model), db=desk.db).finish())
    assert (len(desk.rows()), desk.run(AUTHOR, model=model).waits) == (rows, [wait.id])


def test_a_sub_agent_that_was_gone_on_with_by_itself_is_not_run_again(desk: Desk) -> None:
    model = Scripted([TO_EDITOR, TO_PUBLISH, "it is out", "done"])
    desk.run(AUTHOR, "Write.", model=model)
    approve(desk, "editing")
    desk.run(chat_agent(tools=[publish]), session="editing", model=model)
    assert (desk.statuses("editing"), desk.statuses()) == (["completed"], ["suspended"])
    assert desk.run(AUTHOR, model=model).value == "done"
    assert (RAN, desk.statuses("editing")) == (["a better poem"], ["completed"])


def test_a_sub_agent_that_failed_fails_again_without_being_asked_again(desk: Desk) -> None:
    @segue.agentic_function
    async def careful(topic: str) -> str:
        """Try, then ask somebody."""
        sub_agent = chat_agent()
        try:
            await drive(sub_agent, "editing", input=topic).finish()
        except ModelError as error:
            return f"{error}: {segue.ask_user('What now?')}"
        return ""

    model = Scripted([{"error": {"type": "bad_request", "message": "no"}}])
    runtime = Runtime(model)
    with (
        pytest.raises(Suspended),
        segue.session_context("s", db=desk.db, runtime=runtime),
    ):
        asyncio.run(careful("x"))
    [wait] = decisions.open_waits(desk.db.journal("s"))
    decisions.answer(desk.db.journal("s"), wait.id, "nothing")
    run = asyncio.run(segue.resume("s", function=careful, runtime=runtime, db=desk.db))
    assert (run.value, len(model.requests)) == ("no: nothing", 1)


def test_what_a_sub_agent_said_is_handed_over_again_row_by_row(desk: Desk) -> None:
    seen: list[list[Any]] = []

    @segue.agentic_function
    async def listening(topic: str) -> str:
        """Listen, then ask somebody."""
        said = drive(chat_agent(), "editing", input=topic)
        seen.append([envelope.id async for envelope in said])
        return f"{said.value} {segue.ask_user('And?')}"

    runtime = Runtime(Scripted(["well"]))
    with (
        pytest.raises(Suspended),
        segue.session_context("s", db=desk.db, runtime=runtime),
    ):
        asyncio.run(listening("x"))
    with segue.session_context("editing", db=desk.db, runtime=Runtime(Scripted(["later"]))) as session:
        session.runtime.exec("something else")  # type: ignore[union-attr]
    [wait] = decisions.open_waits(desk.db.journal("s"))
    decisions.answer(desk.db.journal("s"), wait.id, "so")
    run = asyncio.run(segue.resume("s", function=listening, runtime=runtime, db=desk.db))
    created = next(row.id for row in desk.rows("editing"))
    assert run.value == "well so"
    assert seen[1] == [row for row in seen[0] if row != created]


def test_a_suspension_that_the_program_looks_at_itself_does_not_suspend_it(desk: Desk) -> None:
    async def supervising() -> str:
        async with segue.session_context("s", db=desk.db, runtime=Runtime(model)):
            first = drive(chat_agent(tools=[publish]), "editing", input="a poem")
            async for _ in first:
                pass
            assert first.status == "suspended"
            approve(desk, "editing")
            return str((await drive(chat_agent(tools=[publish]), "editing").finish()).value)

    model = Scripted([TO_PUBLISH, "it is out"])
    assert asyncio.run(supervising()) == "it is out"
    assert (RAN, desk.statuses("editing")) == (["a better poem"], ["completed"])
