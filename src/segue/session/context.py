"""`session_context`: one way to set up the ambient turn, from every entry point. The only setter of its ContextVars."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import ThreadPoolExecutor as _ThreadPoolExecutor
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from segue.errors import TurnInProgress, TurnSettled, UsageError
from segue.fold.turns import SETTLED, Turns
from segue.fold.turns import Turn as RecordedTurn
from segue.ids import new_id, new_session_id
from segue.journal import Journal
from segue.session.ambient import (
    _call_id,
    _current_runtime,
    _current_turn_id,
    _store,
    current_call_id,
    current_session,
    current_writer,
)
from segue.session.bind import bind
from segue.session.budget import Budget
from segue.session.db import SessionDB, default_db
from segue.session.inside import inner_session_id, inner_turn_id, recorded_turn
from segue.session.recovery import close_dead_turn
from segue.session.runtime import Runtime, RuntimeSlot
from segue.session.turn import Frame, Turn
from segue.session.writer import SessionNodeWriter

__all__ = ["SessionHandle", "ThreadPoolExecutor", "bind", "current_session", "enter_call", "session_context"]


class SessionHandle:
    """What `session_context` gives: the ids to continue with, and the turn's runtime and record."""

    def __init__(self, db: SessionDB, writer: SessionNodeWriter, slot: RuntimeSlot, *, created: bool) -> None:
        self.db = db
        self.writer = writer
        self.created = created
        """Whether the session was made at this entry."""
        self._slot = slot

    @property
    def session_id(self) -> str:
        return self.writer.session_id

    @property
    def turn_id(self) -> str:
        return self.writer.turn_id

    @property
    def runtime(self) -> Runtime | None:
        """The turn's runtime, made when it is first asked for; None when no model is configured."""
        return self._slot.resolve()


class session_context:
    """Open the ambient turn of a session: `with session_context(id) as h:` or `async with`.

    `session_id` continues that session, or creates it under that id; None mints one, `<id_prefix>_xxxxxxxx`.
    `turn_id` names the turn: an unfinished one is resumed, a settled one raises `TurnSettled`. Without it a new turn
    begins; inside another turn, which runs again, the one that it opened here before is gone on with, and one that is
    over is answered from the record. `runtime` is the one to use; without it the enclosing context's is inherited, else
    one is made when first needed, unless `create_runtime_if_none` is false. `source` says which entry point this is.
    `wait` is how many seconds to wait for a session that another process is writing, before `SessionBusy`. `budget` is
    what the turn may spend, and its session; without it a resumed turn has the one it had. `db` holds the session:
    without it that of the enclosing context, else the default one.

    Entering the session that this code is already in joins its turn: no rows, and the outer context ends it. Leaving
    settles the turn: an exception records ERROR, Ctrl-C cancels, any other cancellation interrupts it resumably. With
    a wait open it suspends the turn, and raises the signal `Suspended` whatever its code gave.
    An instance can be entered once.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        agent_id: str = "main",
        turn_id: str | None = None,
        runtime: Runtime | None = None,
        create_runtime_if_none: bool = True,
        source: str = "code",
        id_prefix: str = "adhoc",
        wait: float = 0.0,
        budget: Budget | None = None,
        db: SessionDB | None = None,
    ) -> None:
        self._session_id, self._agent_id, self._turn_id = session_id, agent_id, turn_id
        self._runtime, self._create, self._source = runtime, create_runtime_if_none, source
        self._prefix, self._wait, self._budget, self._db = id_prefix, wait, budget, db
        self._tokens: list[tuple[ContextVar[Any], Token[Any]]] = []
        self._turn: Turn | None = None
        self._joined = False
        self._outer: SessionNodeWriter | None = None
        """The turn that this one is a part of: opened inside it, and found again when it runs again."""
        self.purpose: Callable[[], str] = lambda: ""
        """What a turn without an id is opened for, where that can be told: see `inner_turn_id`."""
        self.suspends_outer = True
        """Whether a wait in this turn suspends the one that it was opened in."""

    def __enter__(self) -> SessionHandle:
        if self._turn is not None:
            raise UsageError("this session_context was entered before: make a new one for each turn")
        outer = current_writer()
        db = self._db or ambient_db()
        if (
            outer is not None
            and outer.session_id == self._session_id
            and outer.turn.journal.store is db.store
        ):
            return self._join(db, outer)
        if outer is not None and self._turn_id is None:
            self._outer = outer
            self._turn_id = self._inner_turn_id(db, outer)
        session_id, created = self._ensure_session(db)
        self._turn = self._make_turn(db.journal(session_id), session_id, outer)
        writer = SessionNodeWriter(self._turn, db, outer)
        slot = self._slot(outer)
        self._set(_store, writer)
        self._set(_current_turn_id, self._turn.turn_id)
        self._set(_current_runtime, slot)
        self._set(_call_id, "")
        return SessionHandle(db, writer, slot, created=created)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._turn is not None and not self._joined:
                self._turn.leave(error)
        finally:
            self._reset()
        self._pass_on(error)

    async def __aenter__(self) -> SessionHandle:
        handle = self.__enter__()
        if self._turn is not None and not self._joined:
            self._turn.runs_in(asyncio.current_task())
        return handle

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._turn is not None and not self._joined:
                await self._turn.leave_async(error)
        finally:
            self._reset()
        self._pass_on(error)

    def _pass_on(self, error: BaseException | None) -> None:
        """A suspended or cancelled turn is left with the signal, whatever its code made of it on the way."""
        signal = self._turn.signal() if self._turn is not None and not self._joined else None
        if self._outer is not None and self.suspends_outer:
            self._outer.turn.stopped_inside(signal, current_call_id())
        if signal is not None and not isinstance(error, type(signal)):
            raise signal from error

    def _join(self, db: SessionDB, outer: SessionNodeWriter) -> SessionHandle:
        if self._turn_id not in (None, outer.turn_id):
            raise TurnInProgress(
                f"turn {outer.turn_id} of session {outer.session_id} is running here: leave its session_context"
                f" before opening turn {self._turn_id}"
            )
        self._turn, self._joined = outer.turn, True
        outer.turn.meter.limit(self._budget)
        slot = self._slot(outer)
        self._set(_current_runtime, slot)
        return SessionHandle(db, outer, slot, created=False)

    def _inner_turn_id(self, db: SessionDB, outer: SessionNodeWriter) -> str:
        def find(turn_id: str) -> RecordedTurn | None:
            session_id = self._session_id or inner_session_id(self._prefix, turn_id)
            return recorded_turn(db, session_id, turn_id)

        where = self._session_id or f"{self._prefix}_"
        return inner_turn_id(outer.turn, current_call_id(), where, self.purpose(), find)

    def _ensure_session(self, db: SessionDB) -> tuple[str, bool]:
        session_id = self._session_id
        if session_id is None and self._outer is not None and self._turn_id is not None:
            session_id = inner_session_id(self._prefix, self._turn_id)
        if session_id is not None:
            return session_id, db.create_session(session_id, self._agent_id, source=self._source)
        while True:
            session_id = new_session_id(self._prefix)
            if db.create_session(session_id, self._agent_id, source=self._source):
                return session_id, True

    def _make_turn(self, journal: Journal, session_id: str, outer: SessionNodeWriter | None) -> Turn:
        close_dead_turn(journal, self._source)
        known = None if self._turn_id is None else journal.view(Turns).get(self._turn_id)
        if known is not None and known.status in SETTLED and self._outer is None:
            raise TurnSettled(
                f"turn {known.turn_id} of session {session_id} is over ({known.status}): open the session without"
                " turn_id to start a new turn"
            )
        turn_id = self._turn_id or new_id("turn")
        turn = Turn(
            journal,
            turn_id=turn_id,
            agent_id=self._agent_id,
            source=self._source,
            attempt=1 if known is None else known.attempt + 1,
            outer=None if outer is None else outer.turn,
        )
        turn.wait_seconds, turn.enter_call = self._wait, enter_call
        if known is not None:
            turn.go_on(known)
        turn.budget = self._budget or turn.budget
        if not turn.replay.settled:
            turn.meter.limit(turn.budget)
        turn.meter.attach()
        turn.on_end(turn.meter.detach)
        return turn

    def _slot(self, outer: SessionNodeWriter | None) -> RuntimeSlot:
        inherited = _current_runtime.get() if outer is not None else None
        if self._runtime is None and inherited is not None:
            return inherited
        slot = RuntimeSlot(self._runtime, create=self._create)
        if self._turn is not None:
            self._turn.on_end(slot.close)
        return slot

    def _set(self, var: ContextVar[Any], value: Any) -> None:
        self._tokens.append((var, var.set(value)))

    def _reset(self) -> None:
        """In reverse, whatever happens. A generator closed by another task exits in a foreign context, where a token
        cannot be used: there is nothing of ours to undo there, and readers skip the ended turn where it was set."""
        while self._tokens:
            var, token = self._tokens.pop()
            with contextlib.suppress(ValueError):
                var.reset(token)


def ambient_db() -> SessionDB:
    """That of the session this code is in; outside any, the default one."""
    writer = current_writer()
    return default_db() if writer is None else writer.db


@contextlib.contextmanager
def enter_call(frame: Frame, runtime: Runtime | None = None) -> Iterator[None]:
    """Make `frame` the ambient call for the code inside; with `runtime`, make that the ambient runtime too."""
    tokens: list[tuple[ContextVar[Any], Token[Any]]] = [(_call_id, _call_id.set(frame.node_id))]
    if runtime is not None:
        tokens.append((_current_runtime, _current_runtime.set(RuntimeSlot(runtime, create=False))))
    try:
        yield
    finally:
        for var, token in reversed(tokens):
            with contextlib.suppress(ValueError):
                var.reset(token)


class ThreadPoolExecutor(_ThreadPoolExecutor):
    """`concurrent.futures.ThreadPoolExecutor` whose jobs run under a copy of the submitter's context, so that the
    session goes with them; the pooled thread keeps nothing of it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(contextvars.copy_context().run, fn, *args, **kwargs)
