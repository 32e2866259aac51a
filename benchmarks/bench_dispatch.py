"""Many sessions at once through one dispatcher: what a turn costs beside running it directly, and whether any session
is kept waiting for others."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from harness import Row

from segue import AgentApp, SessionContext, events
from segue.dispatch import Dispatcher
from segue.handlers.running import run_handler, user_message
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.stores.git import GitStore


class Work:
    """A handler that says a word, and notes which session had a turn."""

    def __init__(self) -> None:
        self.app, self.order = AgentApp(), list[tuple[str, str]]()
        self.app.agent_route("/")(self.handler)

    async def handler(self, ctx: SessionContext) -> AsyncIterator[events.Event]:
        yield events.MessageStart(message_id=ctx.invocation_id)
        yield events.MessageDelta(message_id=ctx.invocation_id, delta={"type": "text", "text": "noted"})
        yield events.MessageEnd(message_id=ctx.invocation_id)
        self.order.append((ctx.session_id, ctx.input))


async def directly(db: SessionDB, sessions: int, turns: int) -> float:
    """Seconds for the same turns, one after another."""
    work, begun = Work(), time.perf_counter()
    for turn in range(turns):
        for session in range(sessions):
            async with session_context(f"direct{session}", db=db):
                await run_handler(work.app, "/", user_message(str(turn)))
    return time.perf_counter() - begun


async def dispatched(db: SessionDB, sessions: int, turns: int) -> tuple[float, float]:
    """Seconds, and how far the slowest session was when half of all turns were done, as a share of the fastest."""
    work, begun = Work(), time.perf_counter()

    async def talk(session_id: str) -> None:
        for turn in range(turns):
            await dispatcher.submit(str(turn), session_id)

    async with Dispatcher(work.app, db=db) as dispatcher:
        await asyncio.gather(*(talk(f"s{number}") for number in range(sessions)))
        await dispatcher.drained()
        spent = time.perf_counter() - begun
    check(db, work, sessions, turns)
    half = Counter(session_id for session_id, _ in work.order[: sessions * turns // 2])
    return spent, min(half[f"s{number}"] for number in range(sessions)) / max(half.values())


def check(db: SessionDB, work: Work, sessions: int, turns: int) -> None:
    """Nothing is lost or out of order."""
    for number in range(sessions):
        said = [text for session_id, text in work.order if session_id == f"s{number}"]
        assert said == [str(turn) for turn in range(turns)], (number, said)
        assert [turn.status for turn in db.turns(f"s{number}").all] == ["completed"] * turns


def run(quick: bool) -> list[Row]:
    sessions, turns = (20, 10) if quick else (200, 50)
    with tempfile.TemporaryDirectory(prefix="segue-bench-", dir=os.environ.get("SEGUE_BENCH_DIR")) as folder:
        db = SessionDB(GitStore(Path(folder) / "sessions"), index=Path(folder) / "index.sqlite")
        alone = asyncio.run(directly(db, sessions // 10, turns)) / (sessions // 10 * turns)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        spent, fairness = asyncio.run(dispatched(db, sessions, turns))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        db.close()
    count = sessions * turns
    what = f"{sessions} sessions x {turns} turns: {count / spent:.0f} turns/s, {grown:.0f} MB more memory"
    return [
        Row(
            "turns through a dispatcher",
            spent / count / alone,
            None,
            f"a turn, over one run directly; {what}",
        ),
        Row("fairness of a dispatcher", fairness, None, "slowest session over fastest, when half was done"),
    ]
