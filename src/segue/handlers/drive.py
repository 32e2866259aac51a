"""drive: one turn of a handler, its rows handed over as they become durable."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Any

from segue.agents.function import Run
from segue.agents.resume import unfinished_turn
from segue.errors import HandlerError, NotResumable, Suspended, TurnInProgress, UsageError
from segue.events.envelope import Envelope
from segue.fold.conversation import Conversation
from segue.fold.turns import SETTLED, Turn
from segue.handlers.app import AgentApp, Handler, as_app
from segue.handlers.running import last_text, run_handler, user_message
from segue.journal import Journal
from segue.session.ambient import current_call_id, current_writer
from segue.session.awaited import waiting
from segue.session.budget import Budget
from segue.session.context import ambient_db, session_context
from segue.session.db import SessionDB
from segue.session.restored import raised
from segue.session.runtime import Runtime
from segue.stores.protocol import Stop
from segue.tools.digest import digest_of

_NOTHING: Any = object()


def drive(
    app: AgentApp | Handler,
    session_id: str | None = None,
    *,
    path: str | None = None,
    input: Any = _NOTHING,
    runtime: Runtime | None = None,
    source: str = "code",
    id_prefix: str = "adhoc",
    wait: float = 0.0,
    budget: Budget | None = None,
    db: SessionDB | None = None,
) -> Drive:
    """One turn: `async for envelope in drive(app, "id", input="hello")`, or `drive(...).run()` without a loop.

    `session_id` continues that session, or creates it under that id; None makes one. `path` is the route: `/` without
    it, or the app's only one. `input` is what the user says; without it the session's last turn goes on, which was
    suspended or interrupted. The other options are those of `session_context`.

    Raises `UsageError` for a route that is not there and for an input that is blank; the rest is raised by iterating.
    """
    made = as_app(app)
    if isinstance(input, str) and not input.strip():
        raise UsageError("the input is blank: a turn begins with something to say")
    if input is _NOTHING and session_id is None:
        raise UsageError("drive needs an input for a new session")
    reason = None if input is _NOTHING else user_message(input)
    if reason is not None:
        path = made.route(path)
    options = {"runtime": runtime, "source": source, "id_prefix": id_prefix, "wait": wait, "budget": budget}
    return Drive(made, session_id, path, reason, db or ambient_db(), options)


class Drive:
    """One turn, run when it is iterated over: the rows of the session as they become durable, from its beginning to its
    end. The handler runs in a task of its own and does not wait for whoever looks.

    When the rows are through, what the handler raised is raised; a suspension is none: `status` tells it, and `waits`.
    Leaving the loop early, closing the iterator from any task, or leaving `async with` interrupts the turn: it can go
    on. It can be iterated over once.
    """

    def __init__(
        self,
        app: AgentApp,
        session_id: str | None,
        path: str | None,
        reason: dict[str, Any] | None,
        db: SessionDB,
        options: dict[str, Any],
    ) -> None:
        self.session_id, self.turn_id = session_id or "", ""
        """Known from the first row on."""
        self.value: Any = None
        """The text of the answer, once the turn has completed."""
        self.waits: list[str] = []
        """What the turn waits for, when it was suspended: tool call and question ids."""
        self._app, self._path, self._reason, self._db, self._options = app, path, reason, db, options
        self._last_seq = sys.maxsize
        """Of the turn, where it was over before."""
        self._suspended: Suspended | None = None
        self._driven = False
        self._running: asyncio.Task[None] | None = None
        """Refers to this, but not to the iterator: whoever drops that has left the turn."""

    @property
    def status(self) -> str:
        """running, suspended, interrupted, completed, failed or cancelled; empty before the turn began."""
        turn = self._db.turns(self.session_id).get(self.turn_id) if self.turn_id else None
        return "" if turn is None else turn.status

    def __aiter__(self) -> AsyncIterator[Envelope]:
        if self._driven:
            raise UsageError("this turn was driven already: call drive again for another")
        self._driven = True
        return self._rows()

    async def __aenter__(self) -> Drive:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            await _left(self._running)

    async def finish(self) -> Run:
        """Run the turn to its end. Raises what the handler raised, and the signal `Suspended`."""
        async for _ in self:
            pass
        if self._suspended is not None:
            outer = current_writer()
            if outer is not None:
                outer.turn.stopped_inside(self._suspended, current_call_id())
            raise self._suspended
        return Run(self.value, self.session_id, self.turn_id)

    def run(self) -> Run:
        """`finish`, where no event loop runs."""
        return asyncio.run(self.finish())

    # --- the turn ---

    async def _rows(self) -> AsyncGenerator[Envelope]:
        began: asyncio.Future[tuple[Journal, int]] = asyncio.get_running_loop().create_future()
        turn = self._running = asyncio.get_running_loop().create_task(
            self._turn(began), context=contextvars.copy_context()
        )
        try:
            both: set[asyncio.Future[Any]] = {began, turn}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if began.done():
                async with aclosing(_followed(*began.result(), turn)) as batches:
                    async for batch in batches:
                        for envelope in batch:
                            if envelope.seq <= self._last_seq:
                                yield envelope
        finally:
            await _left(turn)
        self._raise(turn)

    async def _turn(self, began: asyncio.Future[tuple[Journal, int]]) -> None:
        opened = self._opened()
        async with opened as session:
            self.session_id, self.turn_id = session.session_id, session.turn_id
            journal = self._db.journal(session.session_id)
            known = None if self._reason is None else session.writer.turn.recorded_turn
            if known is not None:
                began.set_result((journal, known.started_seq - 1))
                self.value = await self._again(journal, known)
                return
            began.set_result((journal, 0 if session.created else journal.last_seq))
            assert self._path is not None
            self.value = await run_handler(self._app, self._path, self._reason)

    async def _again(self, journal: Journal, known: Turn) -> Any:
        """The outer turn runs again, and this one was begun in it before."""
        assert self._path is not None
        if known.status not in SETTLED:
            _refuse_waiting(journal, known)
            return await run_handler(self._app, self._path)
        self._last_seq = known.ended_seq
        if known.status == "failed":
            raise _failure(journal, known)
        return last_text(journal.view_before(Conversation, known.ended_seq + 1))

    def _opened(self) -> session_context:
        writer = current_writer()
        if (
            writer is not None
            and writer.session_id == self.session_id
            and writer.turn.journal.store is self._db.store
        ):
            raise TurnInProgress(
                f"turn {writer.turn_id} of session {self.session_id} is running here already"
            )
        turn_id = None
        if self._reason is None:
            turn = handled_turn(self._db, self.session_id, self._options["source"])
            turn_id, self._path = turn.turn_id, self._app.route(self._path or turn.agent_id)
            self.turn_id = turn_id
            _refuse_waiting(self._db.journal(self.session_id), turn)
        opened = session_context(
            self.session_id or None, turn_id=turn_id, agent_id=self._path or "/", db=self._db, **self._options
        )
        opened.purpose = lambda: digest_of(f"handler {self._path}", self._reason)
        opened.suspends_outer = False  # `finish` does, when it raises
        return opened

    def _raise(self, turn: asyncio.Task[None]) -> None:
        error = asyncio.CancelledError() if turn.cancelled() else turn.exception()
        if isinstance(error, Suspended):
            self._suspended, self.waits = error, error.wait_ids
            if isinstance(error.__cause__, HandlerError):
                raise error.__cause__
        elif error is not None:
            raise error


def handled_turn(db: SessionDB, session_id: str, source: str) -> Turn:
    """The session's last turn, a handler's, not at its end. Raises `NotResumable`, `SessionBusy`, `SessionNotFound`."""
    journal = db.journal(session_id)
    turn = unfinished_turn(journal, source)
    if not is_handled(turn):
        raise NotResumable(
            f"turn {turn.turn_id} was not begun by a handler: give its function to segue.resume"
        )
    return turn


def _refuse_waiting(journal: Journal, turn: Turn) -> None:
    """Raises the signal `Suspended` while the turn waits for somebody."""
    signal = waiting(journal, turn)
    if signal is not None:
        raise signal


def is_handled(turn: Turn) -> bool:
    """Whether a handler runs that turn."""
    return turn.reason.get("kind") == "user_message"


def _failure(journal: Journal, turn: Turn) -> Exception:
    """What a failed turn was left with."""
    rows = journal.read(turn.started_seq - 1)
    said = [row.payload for row in rows if row.type.endswith("ERROR") and row.seq <= turn.ended_seq]
    return raised({"type": said[-1].get("code"), "message": said[-1].get("message")})


async def _left(turn: asyncio.Task[None]) -> None:
    """End the handler's task, if it has not ended: it is cancelled until it gives in."""
    while not turn.done():
        turn.cancel()
        await asyncio.wait({turn}, timeout=1)
    if not turn.cancelled():
        turn.exception()  # it is recorded; nobody is to be told that nobody asked for it


async def _followed(
    journal: Journal, after_seq: int, turn: asyncio.Task[None]
) -> AsyncGenerator[list[Envelope]]:
    """The session's rows from there on, as they become visible, until the turn has ended."""
    loop, batches, stop = asyncio.get_running_loop(), asyncio.Queue[list[Envelope] | None](), Stop()

    def hand_over(batch: list[Envelope] | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
            loop.call_soon_threadsafe(batches.put_nowait, batch)

    turn.add_done_callback(lambda _: stop.set())
    threading.Thread(
        target=_follow, args=(journal, after_seq, stop, hand_over), name="segue-drive", daemon=True
    ).start()
    try:
        while (batch := await batches.get()) is not None:
            after_seq = batch[-1].seq
            yield batch
    finally:
        stop.set()
    yield list(journal.read(after_seq))


def _follow(
    journal: Journal, after_seq: int, stop: Stop, hand_over: Callable[[list[Envelope] | None], None]
) -> None:
    try:
        for batch in journal.watch(after_seq, stop=stop):
            hand_over(batch)
    finally:
        hand_over(None)
