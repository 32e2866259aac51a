"""Seeded histories of programs that stop, die and go on, over the production code.

A history is made by its number alone. One life after the other the program runs, until it dies between two appends,
waits for somebody, or is done; between lives people decide, in any order, sometimes wrongly or twice. What must always
be true is checked whenever a tool takes effect, a model is asked, and a life ends.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import clock
import programs
from world import SESSION, Died, Process, ProcessStore, Violation, World

from segue.agents.resume import resume
from segue.errors import AlreadyDecided, SessionBusy, Suspended
from segue.events.facts import SessionUpdated, ToolApprovalGranted
from segue.fold.conversation import Conversation
from segue.fold.graph import TERMINAL, CallGraph
from segue.fold.waits import Wait
from segue.journal import Journal, open_journal
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime

LIVES = 60
"""A program that is not done after that many goes in circles."""


class History:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.parts = programs.Maker(self.world.random).make()
        self.lives = 0

    def play(self) -> None:
        """Raises `Violation`."""
        with clock.on_one_thread():
            programs._world.set((self.world, self.parts))
            while (outcome := self._checked_life()) is not None:
                if isinstance(outcome, Suspended):
                    self._decide()
                if self.lives > LIVES:
                    raise Violation(f"not done after {LIVES} lives")
            self._check_end()

    # --- a life ---

    def _checked_life(self) -> BaseException | None:
        try:
            return self._life()
        finally:
            self.world.check_record()

    def _life(self) -> BaseException | None:
        """How the life ended; None when the program is done."""
        world, chance = self.world, self.world.random
        self.lives += 1
        dies = chance.random() < 0.7 and self.lives < LIVES // 2
        world.process = Process(chance.randint(1, 30) if dies else None, chance.random() < 0.5)
        db = SessionDB(ProcessStore(world.store, world.process, world))  # type: ignore[arg-type]
        try:
            self._done(clock.run(self._program(db)))
        except (Died, Suspended) as error:
            world.trace.append(type(error).__name__)
            return error
        finally:
            world.process.dead = True
            world.bury()
        return None

    async def _program(self, db: SessionDB) -> Any:
        runtime = Runtime(programs.SimulatedModel(self.world, self.parts))
        begun = any(row.type == "CALL_STARTED" for row in self.world.rows())
        if begun and db.turns(SESSION).last.status == "completed":  # it died when all was written
            return self._replied()
        other = self._other_process() if self.world.random.random() < 0.3 else None
        try:
            if begun:
                return (await resume(SESSION, function=programs.part, runtime=runtime, db=db)).value
            async with session_context(SESSION, runtime=runtime, db=db):
                return await programs.part("root")
        finally:
            if other is not None:
                other.cancel()

    def _replied(self) -> str:
        """The reply that the conversation has."""
        said = self._journal().view(Conversation).messages()[-1]
        return str(said["content"])

    def _other_process(self) -> Any:
        """Somebody else looks in: renames the session, and tries to write to it."""
        import asyncio

        async def look_in() -> None:
            await asyncio.sleep(self.world.random.random() * 5)
            if not self.world.store.exists(SESSION):
                return
            journal = self._journal()
            journal.append(SessionUpdated(title=f"renamed {self.lives}"))
            if self.world.store.holder(SESSION) is not None:
                try:
                    journal.release(journal.acquire(holder="somebody else"))
                except SessionBusy:
                    return
                raise Violation("two hold the lease")

        return asyncio.ensure_future(look_in())

    def _done(self, value: str) -> None:
        expected = programs.expected(self.parts, self._given())
        if value != expected:
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
        return given | {node.name: node.result for node in graph.nodes.values() if node.kind == "question"}

    # --- between lives ---

    def _journal(self) -> Journal:
        return open_journal(self.world.store, SESSION)

    def _decide(self) -> None:
        """Some of what waits, in any order; all of it sooner or later."""
        journal, chance = self._journal(), self.world.random
        waits = decisions.open_waits(journal)
        if not waits:
            raise Violation("suspended, and nothing waits")
        for wait in chance.sample(waits, chance.randint(1, len(waits))):
            self._decide_one(journal, wait)
            self.world.trace.append(f"decided {wait.kind} {wait.id}")
            if chance.random() < 0.2:
                self._decide_again(journal, wait)

    def _decide_one(self, journal: Journal, wait: Wait) -> None:
        chance = self.world.random
        if wait.kind == "question":
            decisions.answer(journal, wait.id, f"answer to {wait.name}")
        elif wait.kind == "unknown_outcome":
            action = chance.choice(("retry", "skip", "result"))
            self.world.retried[wait.id] += action == "retry"
            decisions.resolve(journal, wait.id, action, result=f"resolved {wait.id}")  # type: ignore[arg-type]
        else:
            self._approve(journal, wait)

    def _approve(self, journal: Journal, wait: Wait) -> None:
        match self.world.random.choice(("yes", "yes", "yes", "no", "edit", "late", "forged")):
            case "yes":
                decisions.approve(journal, wait.id)
            case "no":
                self.world.denied.add(wait.id)
                decisions.deny(journal, wait.id, reason="No.")
            case "edit":
                decisions.approve(journal, wait.id, arguments={"label": f"{wait.arguments['label']}e"})
            case "late":
                decisions.approve(journal, wait.id, expires_at="2020-01-01T00:00:00.000000Z")
            case "forged":
                journal.append(ToolApprovalGranted(tool_call_id=wait.id, digest="0" * 64))

    def _decide_again(self, journal: Journal, wait: Wait) -> None:
        """The second one on a wait is told so, and changes nothing."""
        try:
            if wait.kind == "question":
                decisions.answer(journal, wait.id, "another answer")
            elif wait.kind == "approval":
                decisions.deny(journal, wait.id)
            else:
                decisions.resolve(journal, wait.id, "skip")
        except AlreadyDecided:
            return
        raise Violation(f"a second decision on {wait.id} was taken")

    # --- the end ---

    def _check_end(self) -> None:
        self.world.check_record()
        journal = self._journal()
        if waits := decisions.open_waits(journal):
            raise Violation(f"done, and something waits: {waits}")
        graph = journal.view(CallGraph)
        if unfinished := [node for node in graph.nodes.values() if node.status not in TERMINAL]:
            raise Violation(f"done, and not over: {unfinished}")
        roles = [
            row.payload.get("role", "assistant")
            for row in self.world.rows()
            if row.type == "MESSAGE_START" and not row.payload.get("called_by")
        ]
        if roles != ["assistant"]:
            raise Violation(f"the conversation has {roles} for one exchange")


def play(seed: int) -> History:
    history = History(seed)
    try:
        history.play()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}\n  trace: {history.world.trace[-40:]}") from violation
    except Exception as error:
        raise Violation(
            f"seed {seed}: {type(error).__name__}: {error}\n  trace: {history.world.trace[-40:]}"
        ) from error
    return history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="only this one, with its trace")
    options = parser.parse_args()
    if options.seed is not None:
        history = play(options.seed)
        print("\n".join(history.world.trace))
        print(f"seed {options.seed}: fine, {history.lives} lives, {len(history.world.rows())} rows")
        return 0
    begun, lives, failed = time.monotonic(), 0, 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            lives += play(seed).lives
        except Violation as violation:
            failed += 1
            print(violation, file=sys.stderr)
            if failed == 1:
                traceback.print_exc()
            if failed >= 10:
                break
        if seed % 100 == 99:
            print(
                f"\r{seed + 1 - options.first:,} seeds, {lives:,} lives, {failed} failed",
                end="",
                file=sys.stderr,
                flush=True,
            )
    print(f"\n{options.seeds:,} seeds, {lives:,} lives, {failed} failed, {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
