"""Ways in which ambient state fails people elsewhere: streams, threads, tasks, forks of a program."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor as PlainExecutor
from typing import Any

import pytest

import segue
from segue.errors import NoSession, SessionBusy
from segue.session.ambient import current_session, require_writer
from segue.session.context import session_context
from segue.session.db import SessionDB


def note(name: str) -> None:
    require_writer().append({"kind": "function", "name": name})


def noted(db: SessionDB, session_id: str) -> list[str]:
    return [row.payload["name"] for row in db.read(session_id) if row.type == "CALL_STARTED"]


async def async_body(client: str) -> AsyncIterator[str]:
    for index in range(4):
        await asyncio.to_thread(note, f"{client}.{index}")
        yield f"data: {index}\n\n"


def sync_body(client: str) -> Iterator[str]:
    for index in range(4):
        note(f"{client}.{index}")
        yield f"data: {index}\n\n"


async def endpoint(client: str, *, sync: bool) -> Any:
    """Opens the session and returns the body of a streaming response, which runs after the session was left."""
    with session_context(client):
        return segue.bind(sync_body(client) if sync else async_body(client))


async def serve(client: str, *, sync: bool, chunks: int) -> None:
    """As a web framework does: the body is driven from another task, or step by step from worker threads."""
    body = await asyncio.create_task(endpoint(client, sync=sync))
    for _ in range(chunks):
        if sync:
            await asyncio.to_thread(next, body, None)
        else:
            await asyncio.create_task(_step(body))
    await asyncio.to_thread(body.close) if sync else await asyncio.create_task(body.aclose())


async def _step(body: Any) -> Any:
    return await anext(body, None)


async def test_twenty_streams_and_their_disconnects_stay_in_their_own_sessions(db: SessionDB) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    clients = [(f"client-{number}", number % 2 == 0, 2 if number % 3 == 0 else 5) for number in range(20)]
    await asyncio.gather(*(serve(client, sync=sync, chunks=chunks) for client, sync, chunks in clients))
    seen = {client: noted(db, client) for client, _, _ in clients}
    assert seen == {
        client: [f"{client}.{index}" for index in range(min(chunks, 4))] for client, _, chunks in clients
    }
    assert {db.turns(client).last.status for client, _, _ in clients} == {"completed"}  # type: ignore[union-attr]
    assert (errors, current_session()) == ([], None)


async def test_a_bound_body_that_is_never_started_gives_its_session_back(db: SessionDB) -> None:
    with session_context("s"):
        note("before")
        body = segue.bind(async_body("s"))
    assert db.store.holder("s") is not None
    await body.aclose()  # type: ignore[attr-defined]
    del body
    gc.collect()
    assert db.store.holder("s") is None


async def test_one_task_for_each_step_and_garbage_collection_leave_nothing(db: SessionDB) -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))

    async def plain() -> AsyncIterator[int]:
        with session_context("s"):
            yield 1
            yield 2

    for _ in range(3):
        dropped = plain()
        await asyncio.create_task(_step(dropped))
        del dropped
        gc.collect()
        await asyncio.sleep(0)
    await asyncio.get_running_loop().shutdown_asyncgens()
    assert (errors, current_session()) == ([], None)


def test_in_a_users_own_thread_writing_is_refused_and_the_copied_context_carries_it(db: SessionDB) -> None:
    with session_context("s"), PlainExecutor(1) as executor:
        with pytest.raises(NoSession, match="copy_context"):
            executor.submit(note, "lost").result()
        executor.submit(contextvars.copy_context().run, note, "kept").result()
        with pytest.raises(NoSession):
            executor.submit(note, "lost again").result()
    assert noted(db, "s") == ["kept"]


def test_threads_of_two_sessions_never_mix(db: SessionDB) -> None:
    with segue.ThreadPoolExecutor(4) as executor:
        futures = []
        for index in range(20):
            with session_context(f"session-{index % 2}"):
                futures.append(executor.submit(note, f"{index % 2}"))
                futures[-1].result()
    assert noted(db, "session-0") == ["0"] * 10
    assert noted(db, "session-1") == ["1"] * 10


async def test_tasks_inherit_the_session_and_a_task_that_outlives_the_turn_cannot_write(
    db: SessionDB,
) -> None:
    release = asyncio.Event()

    async def stray() -> str:
        await release.wait()
        try:
            await asyncio.to_thread(note, "too late")
        except NoSession:
            return "refused"
        return "written"

    async with session_context("s"):
        await asyncio.to_thread(note, "in time")
        task = asyncio.create_task(stray())
    release.set()
    assert await task == "refused"
    assert noted(db, "s") == ["in time"]


HOLDER = """
import sys
from segue import session_context
with session_context("s") as session:
    session.writer.append({"kind": "function", "name": "held"})
    print("held", flush=True)
    sys.stdin.readline()
    {end}
"""


def holder(end: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.replace("{end}", end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_session_that_another_process_writes_is_busy_and_names_the_holder(db: SessionDB) -> None:
    with holder("pass") as process:
        with session_context("s"), pytest.raises(SessionBusy, match=str(process.pid)):
            note("refused")
        process.communicate("\n")
    with session_context("s"):
        note("mine")
    assert noted(db, "s") == ["held", "mine"]


def test_a_dead_writers_turn_is_closed_at_the_next_open_and_its_calls_are_interrupted(db: SessionDB) -> None:
    with holder("__import__('os').kill(__import__('os').getpid(), 9)") as process:
        process.communicate("\n")
    assert process.returncode == -9
    assert db.get_session("s").status == "interrupted"  # type: ignore[union-attr]
    with session_context("s"):
        pass
    rows = list(db.read("s"))
    assert [(row.type, row.payload.get("status") or row.payload.get("code")) for row in rows[-2:]] == [
        ("CALL_ENDED", "interrupted"),
        ("SESSION_ERROR", "interrupted"),
    ]
    assert os.getpid() != process.pid
