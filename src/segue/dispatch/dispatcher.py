"""Dispatcher: one turn at a time in each session, many sessions at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType
from typing import Any

from segue.dispatch.lane import LOOK, Lane, Work, goes_on
from segue.dispatch.submitting import Mode, Submitted, submit
from segue.errors import SegueError, UsageError
from segue.fold.submissions import Submissions
from segue.fold.turns import Turn, Turns
from segue.handlers.app import AgentApp, Handler, as_app
from segue.handlers.running import run_handler
from segue.ids import new_session_id
from segue.session.budget import Budget
from segue.session.cancelling import cancel
from segue.session.context import session_context
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime

STATUSES = ("queued", "suspended", "interrupted")
"""Of sessions where there may be something to do."""

log = logging.getLogger("segue.dispatch")


class Dispatcher:
    """`async with Dispatcher(app) as dispatcher:` runs what is submitted to the sessions of one store, by this process
    or others: in each session one turn at a time, first in first out, `at_once` sessions at the same time.

    What was submitted before a crash is run, and turns that were interrupted, or whose waits are all decided, go on:
    those that a dispatcher of this `source` began. Leaving the with-block interrupts the turns that run; `drained` lets
    them come to their end first.

    `look_every` is how many seconds may pass until it is noticed what other processes submitted or decided.
    """

    def __init__(
        self,
        app: AgentApp | Handler,
        *,
        runtime: Runtime | None = None,
        source: str = "dispatcher",
        at_once: int = 100,
        look_every: float = 1.0,
        db: SessionDB | None = None,
    ) -> None:
        if at_once < 1:
            raise UsageError(f"at_once={at_once}: at least one turn has to run")
        self.app, self.db = as_app(app), db or default_db()
        self._runtime, self._source, self._look_every = runtime, source, look_every
        self._slots = asyncio.Semaphore(at_once)
        self._lanes: dict[str, Lane] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._looked_at: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Dispatcher:
        if self._looking is not None:
            raise UsageError("this dispatcher was entered before: make a new one")
        await self._look()
        self._looking = asyncio.create_task(self._look_again(), name="segue dispatcher")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._looking is not None
        self._looking.cancel()
        await asyncio.wait([self._looking])
        await asyncio.gather(*(lane.stop() for lane in self._lanes.values()))

    async def submit(
        self,
        input: Any,
        session_id: str | None = None,
        *,
        path: str | None = None,
        client_id: str | None = None,
        mode: Mode = "queue",
        budget: Budget | None = None,
    ) -> Submitted:
        """Record what a user says, and run it when its session comes to it. `session_id` continues that session, or
        creates it under that id; None makes one. Otherwise `segue.dispatch.submit`.

        Raises `UsageError` for a route that is not there, and what `submit` raises.
        """
        path = self.app.route(path)
        submitted = await asyncio.to_thread(self._submit, input, session_id, path, client_id, mode, budget)
        self.poke(submitted.session_id)
        return submitted

    async def finished(self, submitted: Submitted) -> Turn:
        """Wait until a submitted turn is over, or waits for somebody; then this is how it stands. A message that
        steered a turn has none of its own: then it is the turn that it reached.

        Raises `StorageError`.
        """
        while True:
            ended = self._ended.setdefault(submitted.session_id, asyncio.Event())
            turn = await asyncio.to_thread(self._turn, submitted)
            if turn is not None:
                return turn
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._look_every)

    async def cancel(self, session_id: str, turn_id: str = "", *, reason: str = "") -> str:
        """`segue.session.cancelling.cancel`, without blocking the loop."""
        cancelled = await asyncio.to_thread(cancel, self.db.journal(session_id), turn_id, reason=reason)
        self._ended.pop(session_id, asyncio.Event()).set()
        self.poke(session_id)
        return cancelled

    async def drained(self) -> None:
        """Wait until nothing is left to do that does not wait for somebody."""
        while not all(lane.is_idle for lane in self._lanes.values()):
            await asyncio.sleep(LOOK / 4)

    def poke(self, session_id: str) -> None:
        """Look at a session now: somebody submitted or decided something. Called on the dispatcher's loop."""
        lane = self._lanes.get(session_id)
        if lane is None:
            lane = self._lanes[session_id] = Lane(
                self.db.journal(session_id), self._source, lambda work: self._invoke(session_id, work)
            )
        lane.poke()

    # --- one turn ---

    async def _invoke(self, session_id: str, work: Work) -> None:
        async with self._slots:
            try:
                async with session_context(
                    session_id,
                    turn_id=work.turn_id,
                    agent_id=work.path,
                    runtime=self._runtime,
                    source=self._source,
                    budget=Budget.from_record(work.budget),
                    db=self.db,
                ):
                    await run_handler(self.app, work.path, work.reason)
            finally:
                self._ended.pop(session_id, asyncio.Event()).set()

    def _submit(
        self,
        input: Any,
        session_id: str | None,
        path: str,
        client_id: str | None,
        mode: Mode,
        budget: Budget | None,
    ) -> Submitted:
        session_id = session_id or new_session_id()
        self.db.create_session(session_id, path, source=self._source)
        journal = self.db.journal(session_id)
        return submit(journal, input, path=path, client_id=client_id, mode=mode, budget=budget)

    def _turn(self, submitted: Submitted) -> Turn | None:
        """How a submitted turn ended; None while it has not."""
        journal = self.db.journal(submitted.session_id)
        with journal.viewing(Submissions) as submissions:
            if submissions.is_pending(submitted.turn_id):
                return None
            if submissions.is_withdrawn(submitted.turn_id):
                return Turn(turn_id=submitted.turn_id, status="cancelled")
        last = journal.view(Turns).last
        turn = journal.view(Turns).get(submitted.turn_id) or last
        if (
            turn is None
            or turn.status == "running"
            or (turn is last and goes_on(journal, turn, self._source))
        ):
            return None
        return turn

    # --- what others did ---

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)
            try:
                await self._look()
            except SegueError:
                log.exception("the sessions cannot be looked at")

    async def _look(self) -> None:
        for session_id in await asyncio.to_thread(self._changed):
            self.poke(session_id)
            for lane in await asyncio.to_thread(self._waiting_for, session_id):
                lane.poke()

    def _waiting_for(self, session_id: str) -> list[Lane]:
        return [lane for lane in list(self._lanes.values()) if lane.waits_for(session_id)]

    def _changed(self) -> list[str]:
        """Sessions where there may be something to do that have rows which were not there before."""
        listed = {
            info.session_id: info.events
            for status in STATUSES
            for info in self.db.list_sessions(status=status, without_turns=True)
        }
        changed = [name for name, events in listed.items() if self._looked_at.get(name) != events]
        self._looked_at = listed
        return changed
