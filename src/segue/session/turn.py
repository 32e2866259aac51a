"""One turn, from its first row until it settles or suspends. The only place a turn opens, suspends, settles.

Looking costs nothing: the lease is taken and INVOCATION_STARTED written with the turn's first row.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

import msgspec

from segue.errors import (
    BudgetExceeded,
    Cancelled,
    ReplayDivergence,
    SegueError,
    SessionBusy,
    Suspended,
    TurnEnded,
    TurnSettled,
)
from segue.events.facts import (
    CallEnded,
    Error,
    Event,
    InvocationStarted,
    NoMoreActions,
    SessionError,
    TurnCancelled,
    TurnSuspended,
)
from segue.fold.conversation import Conversation
from segue.fold.graph import TERMINAL, CallGraph, Node
from segue.fold.turns import SETTLED, Turns
from segue.fold.turns import Turn as RecordedTurn
from segue.fold.waits import Waits
from segue.ids import new_id
from segue.journal import Journal
from segue.session.budget import Budget
from segue.session.metering import Meter
from segue.session.recovery import cancelled, closed, recover, supersede
from segue.session.replay import Replay
from segue.session.tailing import tails
from segue.stores.protocol import Lease

T = TypeVar("T")

log = logging.getLogger("segue.session")

LOOK_AT_LEASE = 0.02
"""Seconds between two looks of asynchronous code at a lease that somebody else has."""
INTERRUPTIONS = (asyncio.CancelledError, SystemExit, GeneratorExit, ReplayDivergence)
"""What ends code without anybody having cancelled the turn, or its own fault: it can be resumed."""

NOT_RUN = "This call was not run: the turn was cancelled before."
OVER_BUDGET = "This call was not run: the turn's budget was spent before."

ERROR_TEXT = 32_000
"""Characters of an exception's text that are recorded."""


_UNWOUND = {SessionError: "interrupted", TurnSuspended: "suspended"}
"""How a call that a cancellation left is recorded, by what ends its turn; cancelled, where the turn goes on or is."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A running agentic call, as the code inside it needs to know it."""

    node_id: str
    caller: Frame | None = None
    doc: str = ""
    arguments: Any = None
    """JSON value, keyed by parameter name."""
    name: str = ""
    callers: int | None = 1
    subcalls: int | None = None
    """The function's `render_range`; None is no limit."""
    history: int = 0
    """How many messages the conversation had before this call's exchange began."""
    is_tool: bool = False
    """Whether it is a tool's: one that has started comes to its end also when the turn suspends meanwhile."""

    @property
    def depth(self) -> int:
        return 1 if self.caller is None else self.caller.depth + 1


class Turn:
    """Thread-safe: gathered calls, tool threads and the writer's owner append through one turn."""

    def __init__(
        self,
        journal: Journal,
        *,
        turn_id: str,
        agent_id: str,
        source: str,
        attempt: int = 1,
        outer: Turn | None = None,
    ) -> None:
        self.journal, self.session_id = journal, journal.session_id
        self.turn_id, self.agent_id, self.source, self.attempt = turn_id, agent_id, source, attempt
        self.ended = False
        self.wait_seconds = 0.0
        self.enter_call: Callable[[Frame], AbstractContextManager[None]] = lambda frame: nullcontext()
        """Makes a frame the ambient call: given by `session_context`, the only setter of the ContextVars."""
        self._lease: Lease | None = None
        self._lease_ahead: Lease | None = None
        """Taken by asynchronous code that had to wait for it; the first row is about to follow."""
        self._lock = threading.RLock()
        self._frames: dict[str, Frame] = {}
        self._last_child: dict[str, str] = {}
        self._call_ids: set[str] = set()
        self.replay = Replay()
        """What earlier attempts of this turn recorded."""
        self.recorded_turn: RecordedTurn | None = None
        """What the record had of this turn when it was opened."""
        self.reason: dict[str, Any] = {"kind": "direct_call"}
        """Why this attempt runs, where no root call says it."""
        self.handled = False
        """Whether a handler runs it: the conversation is what the handler yields, and its calls are no exchanges."""
        self.budget: Budget | None = None
        """What it may spend, as it was opened; recorded with each attempt."""
        self.meter: Meter = Meter(self, None if outer is None else outer.meter)
        self.invocation_id = ""
        """Of the last INVOCATION_STARTED."""
        self._opened: Counter[str] = Counter()
        """How many turns of other sessions were opened inside, by place."""
        self._waits: list[str] = []
        self._elsewhere: dict[str, str] = {}
        """Wait id -> session, of waits of turns that were opened inside."""
        self._diverged: ReplayDivergence | None = None
        self._in_flight: set[Future[Any] | asyncio.Task[Any]] = set()
        self._stopped: Cancelled | BudgetExceeded | None = None
        """What has ended it, whatever its code makes of that."""
        self._task: asyncio.Task[Any] | None = None
        """The task that the turn's code runs in, where it is known: cancelled with the turn."""
        self._is_struck = False
        """Whether it was, and has to forget it when the turn is left."""
        self._suspended: set[str] = set()
        """Calls that a wait has stopped: whatever they give after that is discarded."""
        self._unwound: list[str] = []
        self._holds = 0
        self._outcome: BaseException | None = None
        self._on_end: list[Callable[[], None]] = []

    # --- writing -------------------------------------------------------------------------------------------------

    def append(self, *events: Event) -> list[int]:
        """Write turn rows; they are durable on return. Raises `TurnEnded`, `SessionBusy`, `StorageError`."""
        with self._lock:
            future = self.submit(*events)
        return future.result()

    async def append_async(self, *events: Event) -> list[int]:
        await self.lease_taken()
        return await self.submitted(self.submit(*events))

    async def lease_taken(self) -> None:
        """Awaited before what writes the turn's first row: `submit` would block the loop while it waits for a busy
        session. Raises `SessionBusy`, `StorageError`."""
        if self.replay.settled:
            raise self._more_than_recorded()
        deadline = time.monotonic() + self.wait_seconds
        while self.wait_seconds > 0 and not (self._lease or self._lease_ahead or self.ended):
            late = time.monotonic() >= deadline
            if late or self.journal.store.holder(self.session_id) is None:
                with nullcontext() if late else suppress(SessionBusy):
                    self._lease_ahead = self.journal.acquire(holder=self.source)
                    return
            await asyncio.sleep(LOOK_AT_LEASE)

    @staticmethod
    async def submitted(rows: Future[list[int]]) -> list[int]:
        """Wait for what `submit` queued, without blocking the loop; being cancelled does not take it back."""
        return await asyncio.wrap_future(rows)

    def submit(self, *events: Event) -> Future[list[int]]:
        """Queue turn rows without waiting for them: the future tells when they are durable."""
        with self._lock:
            self._require_open()
            first = [] if self._lease is not None else [self._open(self.reason)]
            return self.journal.submit(*first, *events, lease=self._lease)

    async def append_onto(self, last_seq: int, *events: Event) -> None:
        """Append, if that row is the session's last one. Raises `StaleWriter` when it is not."""
        self._require_open()
        await self.journal.append_async(*events, lease=self._lease, expected_seq=last_seq)

    def submit_exchange(self, reason: dict[str, Any], *events: Event) -> Future[list[int]]:
        """Queue the start of an exchange: an INVOCATION_STARTED of this turn, with its reason, and what follows it."""
        with self._lock:
            started = self._open(reason)
            return self.journal.submit(started, *events, lease=self._lease)

    def begin(self, event: Event) -> None:
        """Record the start of a call that has no effects of its own: written within 50 ms, or before the next row.

        A failed write is raised at the next row, so before anything happens that has an effect.
        """
        with self._lock:
            self._require_open()
            if self._lease is None:  # all before it was answered from the record
                self.submit(event)
            else:
                self.journal.buffer(event, lease=self._lease)

    def stream(self, message_id: str, kind: Any, text: str, called_by: str) -> None:
        """Buffer streamed text; it is written within 50 ms, or before the next row of the session."""
        self._require_open()
        assert self._lease is not None, "a message starts before its text"
        self.journal.buffer_delta(message_id, kind, text, called_by=called_by, lease=self._lease)

    def _open(self, reason: dict[str, Any]) -> InvocationStarted:
        self._require_open()
        if self._lease is None:
            lease = self._lease_ahead or self.journal.acquire(holder=self.source, wait=self.wait_seconds)
            self._lease_ahead = lease  # given back at the end, also when this turn cannot begin
            recover(self.journal, lease)
            self._require_as_found()
            if self.attempt == 1:
                supersede(self.journal, lease, self.turn_id)
            self._lease, self._lease_ahead = lease, None
            self.meter.start()
            tails.add(self)
        self.invocation_id = new_id("inv")
        return InvocationStarted(
            invocation_id=self.invocation_id,
            turn_id=self.turn_id,
            reason=reason,
            agent_id=self.agent_id,
            source=self.source,
            attempt=self.attempt,
            budget=None if self.budget is None else self.budget.recorded(),
        )

    def _require_as_found(self) -> None:
        """Until the lease was ours, another attempt could run: what is answered from the record must be all there is.

        Raises `TurnSettled`, `SessionBusy`.
        """
        turn = self.journal.view(Turns).get(self.turn_id)
        if turn is None:
            return
        if turn.status in SETTLED:
            raise TurnSettled(
                f"turn {self.turn_id} of session {self.session_id} was ended ({turn.status}) by somebody else meanwhile"
            )
        if turn.attempt >= self.attempt:
            raise SessionBusy(
                f"turn {self.turn_id} of session {self.session_id} went on elsewhere meanwhile: try again",
                holder="",
            )

    def _require_open(self) -> None:
        if self.replay.settled:
            raise self._more_than_recorded()
        if self.ended:
            raise TurnEnded(
                f"turn {self.turn_id} of session {self.session_id} has ended: nothing more can be written to it."
                " Await or join the tasks and threads that a turn starts before leaving its session_context."
            )

    # --- running again ---

    def opened_inside(self, place: str) -> int:
        """The number of the turn that is opened there now, from 1 on. What stands in the record before it is durable:
        it is found again by its place."""
        with self._lock:
            if self._lease is not None:
                self.journal.flush()
            self._opened[place] += 1
            return self._opened[place]

    def go_on(self, recorded: RecordedTurn) -> None:
        """Take up what the record has of this turn. One that is over is only looked at: its program runs once more
        inside an outer one, is given what is recorded, and ends as it did."""
        self.recorded_turn = recorded
        self.handled = recorded.reason.get("kind") == "user_message"
        rows, settled = self.journal.read(recorded.started_seq - 1), recorded.status in SETTLED
        self.replay = Replay(rows, self.turn_id, handled=self.handled, settled=settled)
        self.reason, self.budget = self.replay.reason(), Budget.from_record(self.replay.budget)
        if recorded.status == "cancelled":
            self._stopped = Cancelled(f"turn {self.turn_id} of session {self.session_id} was cancelled")

    def _more_than_recorded(self) -> BaseException:
        """What a program gets that goes further than its settled turn did."""
        with self._lock:
            if self._stopped is not None:
                return self._stopped
            self._diverged = self._diverged or ReplayDivergence(
                f"turn {self.turn_id} of session {self.session_id} is over, and did not do what the program does now:"
                " run the code as it was, or start a new turn"
            )
            return self._diverged

    def recorded(self, caller: str, kind: str, name: str, arguments: Any) -> Node | None:
        """The recorded call that the program makes now, None when it is a new one: see `Replay.take`.

        Raises `ReplayDivergence`; then this attempt is over, whatever the code makes of it.
        """
        try:
            return self.replay.take(caller, kind, name, arguments)
        except ReplayDivergence as error:
            self.check(caller)  # code that swallowed a signal, and goes on, does something else
            self._diverged = self._diverged or error
            raise

    # --- the running calls ------------------------------------------------------------------------------------

    def frame(self, node_id: str) -> Frame | None:
        return self._frames.get(node_id)

    def push(self, frame: Frame) -> None:
        self._frames[frame.node_id] = frame

    def pop(self, node_id: str) -> None:
        self._frames.pop(node_id, None)

    def follow(self, caller: str, node_id: str, known: Node | None = None) -> str:
        """The predecessor of a call: the caller's previous call, or the session's previous root call; of one that the
        record knows, what it is there."""
        if known is not None and known.id == node_id:
            return known.predecessor
        with self._lock:
            if caller not in self._last_child:
                self._last_child[caller] = self._recorded_last(caller) if not caller or self.replay else ""
            previous, self._last_child[caller] = self._last_child[caller], node_id
            return previous

    def _recorded_last(self, caller: str) -> str:
        with self.journal.viewing(CallGraph) as graph:
            last = graph.last_child(caller)
        return last.id if last else ""

    def tool_call_id(self, wanted: str) -> str:
        """An id for a tool call that no other call of the session has: the provider's own where that is new."""
        with self._lock, self.journal.viewing(CallGraph) as graph:
            numbered = (f"{wanted}_{number}" for number in itertools.count(2))
            found = next(
                name
                for name in itertools.chain([wanted], numbered)
                if name not in self._call_ids and graph.get(name) is None
            )
            self._call_ids.add(found)
            return found

    def history_length(self) -> int:
        """How many messages the conversation holds now, without a last one whose calls are not all answered."""
        with self.journal.viewing(Conversation) as conversation:
            return conversation.answered_length()

    def history_before(self, node: Node) -> int:
        """How many messages it held before the exchange that this recorded root call began."""
        before = self.journal.view_before(Conversation, node.seq).answered_length()
        return before if self.handled else max(before - 1, 0)

    # --- waits and interruptions ----------------------------------------------------------------------------------

    def wait_opened(self, wait_id: str, caller: str) -> Suspended:
        """The turn waits from now on. Gives the signal that the code in that call is to be left with."""
        with self._lock:
            self._waits.append(wait_id)
            self._stop(caller)
            return self._suspended_signal()

    def _suspended_signal(self) -> Suspended:
        return Suspended(self.session_id, list(self._waits), self._elsewhere)

    def stopped_inside(self, signal: BaseException | None, caller: str) -> None:
        """A turn of another session, opened inside this one, waits or diverged from its record: so does this one, also
        where the code in the call `caller` makes something else of the signal."""
        with self._lock:
            if isinstance(signal, ReplayDivergence):
                self._diverged = self._diverged or signal
            elif isinstance(signal, Suspended) and not self.ended:
                for wait_id in signal.wait_ids:
                    self._elsewhere[wait_id] = signal.elsewhere.get(wait_id, signal.session_id)
                    self.wait_opened(wait_id, caller)

    def check(self, caller: str) -> None:
        """Called before each new step: a turn that waits, was cancelled, or is over its budget goes no further. Raises
        `Suspended`, `Cancelled`, `BudgetExceeded`."""
        self.meter.require_time()
        with self._lock:
            if self._diverged is not None:
                raise self._diverged
            if self._stopped is not None:
                raise self._stopped
            if self._waits:
                self._stop(caller)
                raise self._suspended_signal()
        if self.replay.settled:
            raise self._more_than_recorded()

    @property
    def has_diverged(self) -> bool:
        """Whether the program did something else than the record has: nothing that it gives now counts."""
        return self._diverged is not None

    def is_suspended(self, node_id: str) -> bool:
        """Whether what that running call gives now is none of its results: a wait has stopped it, or the turn waits and
        nobody knows what has cut it off. A tool that has started counts with all inside it, unless a wait inside has
        stopped it."""
        if not self._waits:
            return False
        frame = self._frames.get(node_id)
        while frame is not None and not frame.is_tool:
            frame = frame.caller
        return frame is None or frame.node_id in self._suspended

    async def to_its_end(self, work: Future[T] | Coroutine[Any, Any, T]) -> T:
        """Wait for a step that has begun and costs something: a model call, a tool. When the turn suspends meanwhile,
        whoever waits here may be cut off, but the step is not: the turn is left once it is done and recorded."""
        step: Future[T] | asyncio.Task[T] = work if isinstance(work, Future) else asyncio.create_task(work)
        self._in_flight.add(step)
        step.add_done_callback(self._in_flight.discard)
        try:
            if self._stopped is not None:  # before this step was in flight
                step.cancel()
            return await asyncio.shield(asyncio.wrap_future(step) if isinstance(step, Future) else step)
        except asyncio.CancelledError as error:
            if self._stopped is not None:
                raise self._stopped from error
            if not self._waits:
                step.cancel()
            raise

    # --- cancelling -----------------------------------------------------------------------------------------------

    def cancel(self, reason: str) -> None:
        """Somebody asked for it. Called from any thread."""
        self.stop(Cancelled(reason))

    def stop(self, why: Cancelled | BudgetExceeded, *, at_once: bool = True) -> None:
        """No new step begins; `at_once`, those in flight are cancelled, and the task that opened the turn. It ends as
        cancelled or failed whatever its code makes of that. Called from any thread."""
        with self._lock:
            if self.ended or self._stopped is not None:
                return
            self._stopped = why
            steps, task = (list(self._in_flight), self._task) if at_once else ([], None)
        for step in steps:
            _cancel(step)
        if task is not None:
            with suppress(RuntimeError):  # its loop is closed
                task.get_loop().call_soon_threadsafe(self._strike, task)

    def runs_in(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def _strike(self, task: asyncio.Task[Any]) -> None:
        if not self.ended:
            self._is_struck = True
            task.cancel()

    def _absorb(self) -> bool:
        """Whether the task's cancellation was ours: what comes after the turn is not cancelled."""
        struck, self._is_struck = self._is_struck, False
        if struck and self._task is not None:
            self._task.uncancel()
        return struck

    @property
    def is_stopped(self) -> bool:
        return self._stopped is not None

    def _stop(self, caller: str) -> None:
        frame = self._frames.get(caller)
        while frame is not None:
            self._suspended.add(frame.node_id)
            frame = frame.caller

    def unwound(self, node_id: str) -> None:
        """A call was left by a cancellation. Whether it was cancelled (the turn goes on) or interrupted (the turn
        ends with it) is known when the turn settles."""
        with self._lock:
            self._unwound.append(node_id)

    # --- the end --------------------------------------------------------------------------------------------------

    def hold(self) -> Callable[[], None]:
        """Keep the turn open beyond its with-block (a bound generator). Returns the release, to be called once."""
        with self._lock:
            self._holds += 1
        released = threading.Event()

        def release() -> None:
            with self._lock:
                if released.is_set():
                    return
                released.set()
                self._holds -= 1
                last = self._holds == 0 and self._outcome is not None
            if last:
                self.leave(None if isinstance(self._outcome, _Normal) else self._outcome)

        return release

    def on_end(self, action: Callable[[], None]) -> None:
        self._on_end.append(action)

    def leave(self, error: BaseException | None) -> None:
        """Settle or suspend, commit, give the lease back. A turn without a row leaves no trace."""
        if self._left(error):
            return
        try:
            self._land()
            if self._is_open():
                self._last(error).result()
        finally:
            self._close()

    async def leave_async(self, error: BaseException | None) -> None:
        """`leave` for `async with`: a task that is cancelled, however often, still records how its turn ended."""
        if self._left(error):
            if not self.ended:  # a bound generator holds it, perhaps until its loop ends
                await self.land_async()
            return
        impatient: asyncio.CancelledError | None = None
        try:
            try:
                await self._landed()
            except asyncio.CancelledError as again:
                impatient = again
            if self._is_open():
                last = asyncio.wrap_future(self._last(error))
                while not last.done():
                    try:
                        await asyncio.wait([last])
                    except asyncio.CancelledError as again:
                        impatient = again
                last.result()
        finally:
            self._close()
        if impatient is not None and not self._absorb():
            raise impatient
        self._absorb()

    async def _landed(self) -> None:
        while True:
            try:
                await self.land_async()
                if self._lands_first:
                    await asyncio.to_thread(self._land)
                return
            except asyncio.CancelledError:
                if not self._absorb():
                    raise

    @property
    def _lands_first(self) -> bool:
        return bool(self._waits) or self._stopped is not None

    def _left(self, error: BaseException | None) -> bool:
        """Whether there is nothing to do now: ended already, or held open by a bound generator."""
        with self._lock:
            if self._holds and not self.ended:
                self._outcome = error or _Normal()
                return True
            return self.ended

    async def land_async(self) -> None:
        """Let the steps in flight of a suspended turn come to their end; also before their loop is left."""
        while self._lands_first and (mine := [step for step in list(self._in_flight) if _lives_here(step)]):
            await asyncio.wait(
                [asyncio.wrap_future(step) if isinstance(step, Future) else step for step in mine]
            )

    async def land_models(self) -> None:
        """The same for model calls alone, which wait for nothing here: before a loop's thread would wait for them."""
        while self._waits and (calls := [step for step in list(self._in_flight) if isinstance(step, Future)]):
            await asyncio.wait([asyncio.wrap_future(call) for call in calls])

    def _land(self) -> None:
        """The same for those of other threads. A tool on a loop that this thread itself runs, or that is closed, cannot
        be waited for: it then has an unknown outcome."""
        while self._lands_first and (
            others := [step for step in list(self._in_flight) if not _is_lost(step)]
        ):
            step = others[0]
            wait([step]) if isinstance(step, Future) else _wait_for_task(step)

    def _last(self, error: BaseException | None) -> Future[list[int]]:
        """Queue the rows that end the turn; from here on nothing else is written to it."""
        with self._lock:
            self.ended = True
            return self.journal.submit(*self._last_rows(error), lease=self._lease)

    def _is_open(self) -> bool:
        """Whether there is a turn to end. One that ran again and needed no new row is ended all the same."""
        if self._lease is None and self.replay.used and not self.replay.settled:
            self.append()
        return self._lease is not None

    def _last_rows(self, error: BaseException | None) -> list[Event]:
        ending = self._ending(error)
        unwound = _UNWOUND.get(type(ending[-1]), "cancelled")
        left = self._unwound if unwound != "cancelled" else self._left_open()
        return [*(CallEnded(node_id=node, status=unwound) for node in left), *ending]  # type: ignore[arg-type]

    def _left_open(self) -> list[str]:
        """All calls of a turn that settles now which have no end: those left by a cancellation, those that still run,
        and those that an earlier attempt began and this one did not come to."""
        with self.journal.viewing(CallGraph) as graph:
            running = [node.id for node in graph.running() if node.turn_id == self.turn_id]
            earlier = [node for node in self.replay.unfinished() if graph.nodes[node].status not in TERMINAL]
        with self.journal.viewing(Waits) as waits:  # a tool call that was made only is not running
            tools = [call.id for call in waits.open_calls(self.turn_id) if call.called_by]
        return list(dict.fromkeys([*self._unwound, *running, *earlier, *tools]))

    def _ending(self, error: BaseException | None) -> list[Event]:
        if self._diverged is not None:
            return [SessionError(message=str(self._diverged), code="interrupted", turn_id=self.turn_id)]
        if isinstance(self._stopped, Cancelled):
            return cancelled(self.journal, self.turn_id, str(self._stopped), NOT_RUN)
        if self._stopped is not None:
            left = closed(self.journal, self.turn_id, self._stopped.code, OVER_BUDGET)
            return [*left, *_failed(self._stopped, self.turn_id)]
        if self._waits:
            return [TurnSuspended(turn_id=self.turn_id, waits=list(self._waits), elsewhere=self._elsewhere)]
        if isinstance(error, Suspended):  # of a session that was not opened inside this turn
            places = dict.fromkeys(error.wait_ids, error.session_id) | error.elsewhere
            return [TurnSuspended(turn_id=self.turn_id, waits=error.wait_ids, elsewhere=places)]
        if error is None:
            self._report_leftovers()
            return [NoMoreActions(turn_id=self.turn_id)]
        if isinstance(error, (KeyboardInterrupt, Cancelled)):
            return [TurnCancelled(turn_id=self.turn_id, reason=type(error).__name__)]
        if isinstance(error, INTERRUPTIONS):
            message = f"interrupted by {type(error).__name__}"
            return [SessionError(message=message, code="interrupted", turn_id=self.turn_id)]
        return _failed(error, self.turn_id)

    def _report_leftovers(self) -> None:
        for node in self.replay.leftovers():
            log.warning(
                "turn %s did not make a call again that it had made before it stopped: %s %s (node %s)",
                *(self.turn_id, node.kind, node.name, node.id),
            )

    def signal(self) -> BaseException | None:
        """What an ended turn is to be left with, whatever its code gave: the signal when it is suspended or cancelled,
        the error when its program diverged from the record."""
        if self._diverged is not None or self._stopped is not None:
            return self._diverged or self._stopped
        return self._suspended_signal() if self._waits else None

    def _close(self) -> None:
        tails.remove(self)
        with self._lock:
            self.ended = True
            lease, self._lease = self._lease, None
            unused, self._lease_ahead = self._lease_ahead, None
        try:
            if unused is not None:
                self.journal.release(unused)
            if lease is not None:
                self.journal.store.commit(self.session_id, f"{self.turn_id} ({self.source})")
                self.journal.release(lease)
        finally:
            for action in self._on_end:
                action()


def _failed(error: BaseException, turn_id: str) -> list[Event]:
    return [Error(message=error_text(error), code=error_code(error)), NoMoreActions(turn_id=turn_id)]


def _cancel(step: Future[Any] | asyncio.Task[Any]) -> None:
    if isinstance(step, Future):
        step.cancel()
    else:
        with suppress(RuntimeError):  # its loop is closed
            step.get_loop().call_soon_threadsafe(step.cancel)


def _lives_here(step: Future[Any] | asyncio.Task[Any]) -> bool:
    return isinstance(step, Future) or step.get_loop() is asyncio.get_running_loop()


def _is_lost(step: Future[Any] | asyncio.Task[Any]) -> bool:
    if isinstance(step, Future):
        return False
    loop = step.get_loop()
    if step.done() or loop.is_closed() or not loop.is_running():
        return True
    with suppress(RuntimeError):
        return asyncio.get_running_loop() is loop
    return False


def _wait_for_task(task: asyncio.Task[Any]) -> None:
    asyncio.run_coroutine_threadsafe(asyncio.wait([task]), task.get_loop()).result()


class _Normal(BaseException):
    """Marks a with-block that was left without an exception while its turn was held."""


def error_text(error: BaseException) -> str:
    """`str(error)`, also of an exception that cannot say what it is: recording it must not replace it.

    At most `ERROR_TEXT` characters of it.
    """
    try:
        text = str(error)
        return text if len(text) <= ERROR_TEXT else f"{text[:ERROR_TEXT]} [... of {len(text):,} characters]"
    except Exception:
        return f"a {type(error).__name__} whose text cannot be read"


def error_code(error: BaseException) -> str:
    """`code` of a Segue error, else the exception's class name."""
    return error.code if isinstance(error, SegueError) else type(error).__name__


def status_of(error: BaseException | None) -> str:
    """How a call ended that was left with this exception; empty when only the turn's end will tell."""
    if error is None:
        return "completed"
    if isinstance(error, (KeyboardInterrupt, Cancelled)):
        return "cancelled"
    if isinstance(error, Suspended):
        return "suspended"
    return "" if isinstance(error, INTERRUPTIONS) else "failed"
