"""One session's turns: which is next, and running it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from segue.errors import Cancelled, SegueError, SessionBusy, SessionNotFound, Suspended
from segue.fold.submissions import Submissions
from segue.fold.turns import Turn, Turns
from segue.handlers.drive import is_handled
from segue.journal import Journal
from segue.session.awaited import awaited

ATTEMPTS = 3
"""How often in a row a turn may be interrupted: after that, those behind it are run."""
LOOK = 0.2
"""Seconds between looks at a session that somebody else is busy with."""

log = logging.getLogger("segue.dispatch")


class Work(msgspec.Struct, frozen=True):
    """One invocation."""

    turn_id: str
    path: str
    reason: dict[str, object] | None = None
    """Of a turn that begins; None for one that goes on."""
    budget: dict[str, object] | None = None
    """As it is recorded."""


class Lane:
    """Runs a session's turns, one after another, until nothing is left to do. Lives on the dispatcher's loop."""

    def __init__(self, journal: Journal, source: str, invoke: Callable[[Work], Awaitable[None]]) -> None:
        self._journal, self._source, self._invoke = journal, source, invoke
        self._poked = False
        self._task: asyncio.Task[None] | None = None

    def poke(self) -> None:
        """There may be something to do."""
        self._poked = True
        if self.is_idle:
            self._task = asyncio.create_task(self._run(), name=f"segue {self._journal.session_id}")

    @property
    def is_idle(self) -> bool:
        return self._task is None or self._task.done()

    def waits_for(self, session_id: str) -> bool:
        """Whether what happens in that other session can let the last turn go on."""
        turn = self._journal.view(Turns).last
        return turn is not None and session_id in turn.elsewhere.values()

    async def stop(self) -> None:
        """Interrupt the turn that runs: it goes on when a dispatcher looks at its session again."""
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1)

    async def _run(self) -> None:
        while self._poked:
            self._poked = False
            try:
                while (work := await asyncio.to_thread(next_work, self._journal, self._source)) is not None:
                    await self._done(work)
            except SessionBusy:  # with a turn of another process, or of this one's own code
                self._poked = True
                await asyncio.sleep(LOOK)
            except SessionNotFound:
                return
            except SegueError:
                log.exception("the turns of session %s are not run for now", self._journal.session_id)
                return

    async def _done(self, work: Work) -> None:
        """What the turn's own code raised is in its record, and nobody else's concern. Raises what kept it from being
        run."""
        before = self._journal.last_seq
        try:
            await self._invoke(work)
        except (Suspended, Cancelled):
            return
        except Exception:
            turn = await asyncio.to_thread(lambda: self._journal.view(Turns).get(work.turn_id))
            if turn is None or turn.ended_seq <= before:
                raise


def next_work(journal: Journal, source: str) -> Work | None:
    """What is to be done in a session, None for nothing, or nothing yet. A turn that can go on comes before new ones,
    if it was this entry point's. Raises `SessionBusy` while somebody runs a turn, `StorageError`.

    What was submitted while a turn ran stays behind the waits that it then opened; what is submitted on seeing them
    supersedes them.
    """
    turn = journal.view(Turns).last
    with journal.viewing(Submissions) as submissions:
        pending = submissions.pending
    if turn is not None and turn.status == "running":
        holder = journal.store.holder(journal.session_id)
        if holder is not None:
            raise SessionBusy(f"session {journal.session_id} is busy: {holder}", holder=holder)
    if turn is not None and goes_on(journal, turn, source):
        return Work(turn.turn_id, turn.agent_id)
    if not pending or (turn is not None and _is_awaited(journal, turn) and pending[-1].seq < turn.ended_seq):
        return None
    return Work(pending[0].turn_id, pending[0].agent_id, pending[0].reason, pending[0].budget)


def goes_on(journal: Journal, turn: Turn, source: str) -> bool:
    """Whether the last turn can go on, as far as nobody runs it, and is this entry point's to go on with."""
    if turn.source != source or not is_handled(turn):
        return False
    if turn.status == "suspended":
        return not _is_awaited(journal, turn)
    return turn.status in ("running", "interrupted") and _interruptions(journal, turn) < ATTEMPTS


def _is_awaited(journal: Journal, turn: Turn) -> bool:
    """Whether somebody has to decide before the turn goes on."""
    return turn.status == "suspended" and bool(awaited(journal, turn))


def _interruptions(journal: Journal, turn: Turn) -> int:
    """How often the turn was begun, since it was last suspended."""
    begun = 0
    for row in journal.read(turn.started_seq - 1):
        if row.type == "INVOCATION_STARTED" and row.payload.get("turn_id") == turn.turn_id:
            begun += 1
        elif row.type == "TURN_SUSPENDED":
            begun = 0
    return begun
