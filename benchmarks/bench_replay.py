"""Going on with a program of many steps: what answering the finished ones costs beside making them, and beside reading
the record."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from harness import Row, medians, seconds

from segue.agents.function import agentic_function
from segue.agents.resume import resume
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.replay import Replay
from segue.session.steps import step
from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Store


class Stop(SystemExit):
    """Ends the program before its last step."""


def one(number: int) -> int:
    return number


class Program:
    """So many steps of plain code inside one agentic function, and a stop."""

    def __init__(self, steps: int) -> None:
        self.stops = True

        @agentic_function
        def work(steps: int) -> int:
            """Count."""
            total = sum(step(one, number) for number in range(steps))
            if self.stops:
                raise Stop
            return total

        self.work, self.steps = work, steps

    def first(self, db: SessionDB, session_id: str) -> None:
        self.stops = True
        try:
            with session_context(session_id, db=db):
                self.work(self.steps)
        except Stop:
            pass

    def again(self, db: SessionDB, session_id: str) -> Any:
        self.stops = False
        return resume(session_id, function=self.work, db=db).value


def fold_turn(db: SessionDB, session_id: str) -> Replay:
    turn = db.turns(session_id).last
    assert turn is not None
    return Replay(db.read(session_id), turn.turn_id)


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="segue-bench-", dir=os.environ.get("SEGUE_BENCH_DIR")) as folder:
        return [
            *_resume(Path(folder), 100 if quick else 1000, rounds=3 if quick else 7),
            _turn("memory", MemoryStore(), 20 if quick else 200),
            _turn("git", GitStore(Path(folder) / "turns", commits=False), 20 if quick else 200),
        ]


@agentic_function
def add(number: int) -> int:
    """Add one."""
    return number + 1


def _turn(name: str, store: Store, turns: int) -> Row:
    """A turn of one call that does nothing, in a session that is there, beside the bare function."""
    db = SessionDB(store)
    db.create_session("s")

    def ours() -> None:
        for number in range(turns):
            with session_context("s", db=db):
                add(number)

    def bare() -> None:
        for number in range(turns):
            add.function(number)

    mine, baseline = medians(ours, bare, rounds=5)
    db.close()
    detail = f"{mine / turns * 1e6:,.0f} us a turn over {baseline / turns * 1e6:.2f} us for the bare function"
    return Row(f"a turn beside a bare call, {name}", mine / baseline, None, detail)


def _resume(folder: Path, steps: int, rounds: int) -> list[Row]:
    db, program = SessionDB(GitStore(folder / "sessions", commits=False)), Program(steps)
    made: list[float] = []
    went_on: list[float] = []
    read: list[float] = []
    for number in range(rounds):
        session_id = f"s{number}"
        made.append(seconds(partial(program.first, db, session_id)))
        read.append(seconds(partial(fold_turn, db, session_id)))
        went_on.append(seconds(partial(program.again, db, session_id)))
    db.close()
    fastest = [min(times) for times in (made, went_on, read)]
    each = f"{steps:,} steps: made in {fastest[0]:.2f} s, answered in {fastest[1]:.3f} s"
    return [
        Row("going on with many steps", fastest[1] / fastest[0], None, f"over making them; {each}"),
        Row("answering beside reading", fastest[1] / fastest[2], None, "over folding the turn's rows once"),
    ]
