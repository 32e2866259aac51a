"""Seeded histories of programs that stop, die and go on, over the production code.

A history is made by its number alone. One life after the other a process runs the program, until it dies between two
appends, waits for somebody, or is done. Meanwhile other processes live: people who decide, in any order, sometimes
wrongly, twice or at the same moment; a second one that goes on with the same turn; one that takes the lease from a
process that was away for too long. What must always be true is checked whenever a tool takes effect, a model is asked,
and a life ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import clock
import programs
from people import People
from planted import PLANTED
from world import SESSION, Died, Process, ProcessStore, Violation, World, current

from segue.errors import NotResumable, SessionBusy, Suspended, TurnSettled
from segue.fold.conversation import Conversation
from segue.fold.graph import TERMINAL, CallGraph
from segue.fold.turns import SETTLED, Turn, Turns
from segue.handlers.app import AgentApp
from segue.handlers.chat import chat_agent
from segue.handlers.drive import drive
from segue.handlers.resume import resume
from segue.journal import Journal, open_journal
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.recovery import close_dead_turn
from segue.session.runtime import Runtime

LIVES = 80
"""A program that is not done after that many goes in circles."""
ON_DISK = 25
"""One history in so many is on the git store, which takes longer."""
SHARE = 20
"""Histories that a process is given at a time."""
KINDS = ("function", "function", "function", "chat", "handler")


class Exchange:
    """A turn: a function that is called, or a message that a handler answers."""

    def __init__(self, kind: str, made: programs.Maker, number: int) -> None:
        self.kind, self.turn_id = kind, f"turn_{number}"
        self.name = {"function": made.function, "chat": made.chat, "handler": made.handler}[kind]()
        self._app = AgentApp(programs.TOOLS)
        self._app.agent_route("/")(
            programs.handler if kind == "handler" else chat_agent(tools=programs.TOOLS)
        )

    async def begin(self, db: SessionDB, runtime: Runtime) -> Any:
        if self.kind == "function":
            async with session_context(SESSION, turn_id=self.turn_id, runtime=runtime, db=db):
                return await programs.part(self.name)
        said = f"tools {self.name}" if self.kind == "chat" else self.name
        return (await drive(self._app, SESSION, input=said, runtime=runtime, db=db).finish()).value

    async def go_on(self, db: SessionDB, runtime: Runtime) -> Any:
        function = programs.part if self.kind == "function" else self._app
        return (await resume(SESSION, function=function, runtime=runtime, db=db)).value

    def expected(self, expected: programs.Expected) -> str:
        return expected.chat(self.name) if self.kind == "chat" else expected.part(self.name)


class History:
    """One seed's."""

    def __init__(self, seed: int, folder: Path | None = None) -> None:
        self.seed, self.world = seed, World(seed, folder)
        chance, maker = self.world.random, programs.Maker(self.world.random)
        kinds = [chance.choice(KINDS) for _ in range(chance.choice((1, 1, 2)))]
        self.exchanges = [Exchange(kind, maker, number) for number, kind in enumerate(kinds)]
        self.parts, self.now, self.lives = maker.parts, 0, 0
        self.people = People(self.world)
        self.trail: list[str] = []
        """What the record has in the end."""

    def play(self) -> None:
        """Raises `Violation`."""
        with clock.on_one_thread(self.seed):
            programs._world.set((self.world, self.parts))
            while self.now < len(self.exchanges):
                self._life()
                self.world.check_record()
                self._between_lives()
                if self.lives > LIVES:
                    raise Violation(f"not done after {LIVES} lives")
            self._check_end()

    @property
    def _exchange(self) -> Exchange:
        return self.exchanges[self.now]

    def _turn(self) -> Turn | None:
        """That of the exchange, once it has begun."""
        turns = self._journal().view(Turns).all if self.world.store.exists(SESSION) else []
        return turns[self.now] if len(turns) > self.now else None

    def _journal(self) -> Journal:
        return open_journal(self.world.store, SESSION)

    # --- a life ---

    def _life(self) -> None:
        world, chance = self.world, self.world.random
        self.lives += 1
        calm = self.lives > LIVES // 2
        first = self._process(dies=not calm and chance.random() < 0.6)
        if not calm and world.can_lose_leases and chance.random() < 0.1:
            first.keeps, first.taken_over = chance.randint(1, 20), self._take_over
        processes = [first]
        if not calm and chance.random() < 0.2:
            processes.append(self._process(dies=chance.random() < 0.3))
        clock.run(self._all(processes))
        for process in processes:
            if process.leases:
                raise Violation("a process that is over has kept its lease")
            if process.store is not world.store:
                process.store.close()

    def _process(self, *, dies: bool) -> Process:
        chance = self.world.random
        return Process(
            self.world.open_store(), chance.randint(1, 30) if dies else None, written=chance.random() < 0.5
        )

    async def _all(self, processes: list[Process]) -> None:
        chance, alone = self.world.random, len(processes) == 1
        people = asyncio.ensure_future(self.people.meanwhile()) if chance.random() < 0.4 else None
        running = [
            asyncio.get_running_loop().create_task(
                self._lived(process, number * chance.random() * 8, alone=alone),
                context=contextvars.copy_context(),
            )
            for number, process in enumerate(processes)
        ]
        await asyncio.wait(running)
        if people is not None:
            people.cancel()
        for task in running:
            task.result()

    async def _lived(self, process: Process, after: float, *, alone: bool) -> None:
        """One process's life: how it may end is checked."""
        current.set(process)
        await asyncio.sleep(after)
        try:
            value = await self._program(process)
        except (Died, Suspended) as error:
            self.world.trace.append(type(error).__name__)
        except (SessionBusy, TurnSettled, NotResumable) as error:
            self.world.trace.append(type(error).__name__)
            if alone and not process.is_late:
                raise
        except Exception as error:
            self.world.trace.append(type(error).__name__)
            if not process.is_late:
                raise
        else:
            if process.is_late:
                raise Violation("a process whose turn was taken over says that it is done")
            self._check_value(value)
        finally:
            await self._leave_loop(process)
            if process.dead:
                process.free()
            process.dead = True

    async def _leave_loop(self, process: Process) -> None:
        """As `asyncio.run` ends: what is left is cancelled, and comes to its end."""
        while left := [task for task in process.tasks if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    async def _program(self, process: Process) -> Any:
        db = SessionDB(ProcessStore(process, self.world))  # type: ignore[arg-type]
        runtime = Runtime(programs.SimulatedModel(self.world, self.parts))
        if self._turn() is None:
            return await self._exchange.begin(db, runtime)
        return await self._exchange.go_on(db, runtime)

    def _take_over(self) -> None:
        """Somebody opens the session of a process that has lost its lease."""
        self.world.trace.append("taken over")
        journal = Journal(self.world.store, SESSION)
        close_dead_turn(journal, "somebody else")

    def _check_value(self, value: str) -> None:
        self.world.check_record()
        expected = self._exchange.expected(programs.Expected(self.parts, self._given()))
        if not re.fullmatch(expected, value):
            raise Violation(f"the program gave\n  {value}\ninstead of\n  {expected}")

    def _given(self) -> dict[str, str]:
        """The recorded results of tool calls and questions."""
        labels = {
            row.payload["tool_call_id"]: row.payload["arguments"]["label"]
            for row in self.world.rows()
            if row.type == "TOOL_CALL"
        }
        given: dict[str, str] = {}
        for row in self.world.rows():
            if row.type == "TOOL_RESULT":
                given.setdefault(labels[row.payload["tool_call_id"]], row.payload["result"])
        graph = self._journal().view(CallGraph)
        questions = (node for node in graph.nodes.values() if node.kind == "question")
        return given | {node.name: node.result for node in questions if node.result is not None}

    # --- between lives ---

    def _between_lives(self) -> None:
        turn, more = self._turn(), self.now + 1 < len(self.exchanges)
        if turn is None:
            return
        if turn.status in SETTLED:
            if turn.status != "completed":
                raise Violation(f"the turn is {turn.status}")
            self._check_value(self._replied())
            self.now += 1
        elif more and self.world.random.random() < 0.1:
            self.world.trace.append("a new turn")
            self.now += 1
        elif waits := self.people.open_waits():
            self.people.decide(waits)
        elif turn.status == "suspended" and not self.people.decided(turn):
            raise Violation("suspended, and nothing waits")

    def _replied(self) -> str:
        """The reply that the conversation has."""
        return str(self._journal().view(Conversation).messages()[-1]["content"])

    # --- the end ---

    def _check_end(self) -> None:
        self.world.check_record()
        if waits := self.people.open_waits():
            raise Violation(f"done, and something waits: {waits}")
        turns = [turn for turn in self._journal().view(Turns).all if turn.status == "completed"]
        done = {turn.turn_id for turn in turns}
        nodes = self._journal().view(CallGraph).nodes.values()
        if unfinished := [node for node in nodes if node.turn_id in done and node.status not in TERMINAL]:
            raise Violation(f"done, and not over: {unfinished}")
        said = self._said()
        functions = all(exchange.kind == "function" for exchange in self.exchanges)
        if functions and (wrong := {turn: times for turn, times in said.items() if times > 1}):
            raise Violation(f"the reply was said more than once: {wrong}")

    def _said(self) -> Counter[str]:
        """How many messages of the conversation each turn has said."""
        said, turn_id = Counter[str](), ""
        for row in self.world.rows():
            if row.type == "INVOCATION_STARTED":
                turn_id = row.payload["turn_id"]
            elif row.type == "MESSAGE_START" and not row.payload.get("called_by"):
                said[turn_id] += 1
        return said


def play(seed: int) -> History:
    """Raises `Violation` naming the seed."""
    with tempfile.TemporaryDirectory(prefix="segue-simulation-") as folder:
        history = History(seed, Path(folder) if seed % ON_DISK == ON_DISK - 1 else None)
        try:
            history.play()
        except Exception as error:
            what = error if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
            raise Violation(f"seed {seed}: {what}\n  trace: {history.world.trace[-40:]}") from error
        finally:
            history.trail = [f"{row.seq} {row.type} {row.payload}" for row in history.world.rows()]
            history.world.store.close()
        return history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that share the work")
    parser.add_argument("--planted", action="store_true", help="find the planted bugs instead")
    parser.add_argument("--seed", type=int, help="only this one, with its trace")
    options = parser.parse_args()
    if options.seed is not None:
        return _play_one(options.seed)
    seeds = range(options.first, options.first + options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        return (_find_planted if options.planted else _play_all)(pool, seeds)


def _play_all(pool: ProcessPoolExecutor, seeds: range) -> int:
    begun, done, lives, failed = time.monotonic(), 0, 0, 0
    parts = [seeds[at : at + SHARE] for at in range(0, len(seeds), SHARE)]
    for part, (lived, violations) in zip(parts, pool.map(_play_some, parts), strict=True):
        done, lives, failed = done + len(part), lives + lived, failed + len(violations)
        for violation in violations:
            print(f"\n{violation}", file=sys.stderr)
        print(f"\r{done:,} seeds, {lives:,} lives, {failed} failed", end="", file=sys.stderr, flush=True)
    print(f"\n{done:,} seeds, {lives:,} lives, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


def _play_some(seeds: range) -> tuple[int, list[str]]:
    """How many lives they had, and what went wrong."""
    lives, violations = 0, []
    for seed in seeds:
        try:
            lives += play(seed).lives
        except Violation as violation:
            violations.append(str(violation))
    return lives, violations


def _find_planted(pool: ProcessPoolExecutor, seeds: range) -> int:
    missed = 0
    for name, found in pool.map(_find_one, PLANTED, [seeds] * len(PLANTED)):
        missed += not found
        print(f"{name}: {found or 'NOT FOUND'}", flush=True)
    return 1 if missed else 0


def _find_one(name: str, seeds: range) -> tuple[str, str]:
    with PLANTED[name]():
        for seed in seeds:
            try:
                play(seed)
            except Violation as violation:
                return name, str(violation).splitlines()[0]
    return name, ""


def _play_one(seed: int) -> int:
    try:
        history = play(seed)
    except Violation:
        traceback.print_exc()
        return 1
    print("\n".join(history.world.trace))
    print(f"seed {seed}: fine, {history.lives} lives, {len(history.trail)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
