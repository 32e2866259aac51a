"""The journal of one session: the only writer. It stamps facts, demands the lease, appends, reads, watches.

Thread-safe. Streamed text and the starts of calls without effects are the only rows that wait: for at most 50 ms or
32 KiB, and never past the journal's next append. Everything else is queued at once, in the order of the calls.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, TypeVar, cast

from segue import ids
from segue.errors import InvalidEvent, LeaseRequired
from segue.events.codec import encode_payload
from segue.events.envelope import Envelope
from segue.events.facts import Event, HeadMoved, MessageDelta
from segue.fold.path import active_path
from segue.stores.protocol import Draft, Lease, Store

DELTA_SECONDS = 0.05
"""How long streamed text may wait for more of it."""
DELTA_BYTES = 32 * 1024
"""How much streamed text may wait, in UTF-8."""
EXIT_SECONDS = 5.0
"""How long the exit of the interpreter may take to write what still waits, per journal."""

DeltaKind = Literal["text", "reasoning"]


class View(Protocol):
    """A fold that is kept up to date: made without arguments, then given every row once, in order.

    A class that says `ACTIVE_PATH = True` is given the rows of the active path only: at a HEAD_MOVED a new
    instance takes its place. Others see every row and make of HEAD_MOVED what they will.
    """

    def apply(self, envelope: Envelope) -> Any: ...


V = TypeVar("V", bound=View)


class _Held:
    """Rows that wait, in order: whole ones, and the text that is still growing."""

    def __init__(self, lease: Lease, draft: Callable[[Event], Draft]) -> None:
        self.lease = lease
        self.size = 0
        self._draft = draft
        self._drafts: list[Draft] = []
        self._message: tuple[str, DeltaKind, str] | None = None
        self._texts: list[str] = []

    def add(self, event: Event) -> None:
        self._seal()
        self._drafts.append(self._draft(event))

    def add_text(self, message_id: str, kind: DeltaKind, text: str, called_by: str) -> None:
        """More of the same message, kind and caller joins what is there."""
        if self._message != (message_id, kind, called_by):
            self._seal()
            self._message = (message_id, kind, called_by)
        self._texts.append(text)
        self.size += len(text.encode("utf-8", "surrogatepass"))

    def drafts(self) -> list[Draft]:
        self._seal()
        return self._drafts

    def _seal(self) -> None:
        if self._message is not None:
            message_id, kind, called_by = self._message
            delta = {"type": kind, "text": "".join(self._texts)}
            self._message, self._texts = None, []
            self._drafts.append(
                self._draft(MessageDelta(message_id=message_id, delta=delta, called_by=called_by))
            )


class Journal:
    """Use `open_journal`: two journals of one session in one process would each hold their own text back."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        deployment_id: str = "local",
        clock: ids.Clock = ids.utc_now,
        id_source: ids.IdSource = ids.new_id,
    ) -> None:
        self.store, self.session_id, self.deployment_id = store, session_id, deployment_id
        self.opened = False
        """For the session layer: whether this process has looked after a dead writer already."""
        self._clock, self._new_id = clock, id_source
        self._start_anew()
        _processes.watch(self)

    def _start_anew(self) -> None:
        """Own locks, nothing held back, nothing folded: a forked child's parent writes what is held, and may
        have been folding when it forked."""
        self._lock = threading.RLock()
        self._view_lock = threading.RLock()
        self._held: _Held | None = None
        self._flushes: list[tuple[Lease, Future[list[int]]]] = []
        self._views: dict[type[View], View] = {}
        self._folded = 0

    # --- writing ------------------------------------------------------------------------------------------

    def append(
        self, *events: Event, lease: Lease | None = None, expected_seq: int | None = None
    ) -> list[int]:
        """Write facts, all or none. On return they are durable and visible; gives their seqs.

        Raises `InvalidEvent` and `LeaseRequired` before anything is queued, `StaleWriter` or `StorageError`
        when the store refused; and what an earlier background write of text under this lease failed with.
        """
        return self.submit(*events, lease=lease, expected_seq=expected_seq).result()

    async def append_async(
        self, *events: Event, lease: Lease | None = None, expected_seq: int | None = None
    ) -> list[int]:
        """`append` without blocking the loop. Cancelling it does not take back what was queued."""
        return await asyncio.wrap_future(self.submit(*events, lease=lease, expected_seq=expected_seq))

    def submit(
        self, *events: Event, lease: Lease | None = None, expected_seq: int | None = None
    ) -> Future[list[int]]:
        """Queue an append, behind the text that waits. Its future cannot be cancelled."""
        drafts = self._drafts(events, lease)
        joined = False
        with self._lock:
            self._raise_failed_flush(lease)
            held, self._held = self._held, None
            if held is not None and (held.lease != lease or expected_seq is not None or not drafts):
                self._submit_held(held)
            elif held is not None:  # one append: neither row without the other
                drafts = [*held.drafts(), *drafts]
                joined = True
            if not drafts:
                return _done([])
            future = self.store.submit(self.session_id, drafts, lease=lease, expected_seq=expected_seq)
        return _last(len(events), future) if joined else future

    def buffer_delta(
        self, message_id: str, kind: DeltaKind, text: str, *, called_by: str = "", lease: Lease
    ) -> None:
        """Hold streamed text back for a moment, so that a row holds more than a token.

        Raises what an earlier background write under this lease failed with.
        """
        if type(text) is not str or kind not in ("text", "reasoning"):
            problem = f"{kind!r} of {type(text).__name__} is not text or reasoning"
            raise InvalidEvent(f"MESSAGE_DELTA.delta: {problem}")
        with self._lock:
            held = self._holding(lease)
            held.add_text(message_id, kind, text, called_by)
            if held.size >= DELTA_BYTES:
                self._flush_held()

    def buffer(self, event: Event, *, lease: Lease) -> None:
        """Hold a fact back like streamed text, for one that nothing happens on the strength of: the start of a
        call whose code has no effect on the world. It is checked now, and written before any later row.

        Raises `InvalidEvent`, and what an earlier background write under this lease failed with.
        """
        with self._lock:
            self._holding(lease).add(event)

    def _holding(self, lease: Lease) -> _Held:
        """What waits under this lease; the first to wait sets the clock."""
        self._raise_failed_flush(lease)
        if self._held is not None and self._held.lease != lease:
            self._flush_held()
        if self._held is None:
            self._held = _Held(lease, self._draft)
            _processes.flusher.schedule(self)
        return self._held

    def flush(self, timeout: float | None = None) -> None:
        """Write the text that waits. On return it is durable; raises what writing any of it failed with."""
        with self._lock:
            self._flush_held()
            flushes, self._flushes = self._flushes, []
        for _, future in flushes:
            future.result(timeout)

    def _drafts(self, events: Sequence[Event], lease: Lease | None) -> list[Draft]:
        drafts = [self._draft(event) for event in events]
        turn_rows = [event.TYPE for event in events if not event.CONTROL] if lease is None else []
        if turn_rows:
            raise LeaseRequired(f"{turn_rows[0]} is a turn row: acquire the session's turn lease first")
        return drafts

    def _draft(self, event: Event) -> Draft:
        payload = encode_payload(event)
        return Draft(self._new_id("evt"), self.deployment_id, event.TYPE, payload, self._clock())

    def _flush_held(self) -> None:
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                self._submit_held(held)

    def _submit_held(self, held: _Held) -> None:
        try:
            future = self.store.submit(self.session_id, held.drafts(), lease=held.lease)
        except Exception as error:  # told to the next append under this lease, as a failed write is
            future = Future()
            future.set_exception(error)
        self._flushes.append((held.lease, future))

    def _raise_failed_flush(self, lease: Lease | None) -> None:
        """Forget the flushes that are done; the first failure of this lease's is the caller's to know."""
        if not self._flushes:
            return
        done = [future for owner, future in self._flushes if owner == lease and future.done()]
        self._flushes = [flush for flush in self._flushes if flush[1] not in done]
        for error in (future.exception() for future in done):
            if error is not None:
                raise error

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """Seq of the last visible row, 0 for none."""
        return self.store.last_seq(self.session_id)

    def read(self, after_seq: int = 0) -> Iterator[Envelope]:
        """The visible rows after `after_seq`."""
        return self.store.read(self.session_id, after_seq)

    def watch(self, after_seq: int = 0, *, stop: threading.Event | None = None) -> Iterator[list[Envelope]]:
        """Batches of rows after `after_seq`, as they become visible anywhere, until `stop` is set."""
        return self.store.watch(self.session_id, after_seq, stop=stop)

    def view(self, cls: type[V]) -> V:
        """The fold of all rows visible now. One instance a class, and each row is read once for all of them.

        The instance is shared and grows at the next `view` call of any thread: use `viewing` to iterate over
        one that other threads use.
        """
        with self._view_lock:
            self._catch_up()
            if cls not in self._views:
                last = self._folded if self._views else self.last_seq  # as far as the others are
                self._views[cls] = self._fold(cls, last)
                self._folded = last
            return cast(V, self._views[cls])

    @contextlib.contextmanager
    def viewing(self, cls: type[V]) -> Iterator[V]:
        """`view`, unchanged by other threads inside the with-block."""
        with self._view_lock:
            yield self.view(cls)

    def _catch_up(self) -> None:
        last = self.last_seq
        if last < self._folded:  # the session was deleted and made again
            self._views, self._folded = {}, 0
        if last == self._folded or not self._views:
            return
        for envelope in self.read(self._folded):
            try:
                self._apply(envelope)
            except BaseException:  # one view has the row, another has not: fold again from the start
                self._views, self._folded = {}, 0
                raise
            self._folded = envelope.seq

    def _apply(self, envelope: Envelope) -> None:
        for cls, view in list(self._views.items()):
            if envelope.type == HeadMoved.TYPE and getattr(cls, "ACTIVE_PATH", False):
                self._views[cls] = self._fold(cls, envelope.seq)
            else:
                view.apply(envelope)

    def _fold(self, cls: type[V], last: int) -> V:
        """A new view of the rows up to `last`."""
        view = cls()
        rows: Iterable[Envelope] = itertools.takewhile(lambda row: row.seq <= last, self.read())
        for envelope in active_path(rows) if getattr(cls, "ACTIVE_PATH", False) else rows:
            view.apply(envelope)
        return view

    # --- the lease ----------------------------------------------------------------------------------------

    def acquire(self, *, holder: str, wait: float = 0.0) -> Lease:
        """The right to write turn rows. Raises `SessionBusy` naming who has it, after `wait` seconds."""
        return self.store.acquire(self.session_id, holder=holder, wait=wait)

    def release(self, lease: Lease) -> None:
        """Write the text that waits and give the lease back, which happens even when that write fails."""
        try:
            self.flush()
        finally:
            self.store.release(lease)


def open_journal(
    store: Store,
    session_id: str,
    *,
    deployment_id: str = "local",
    clock: ids.Clock = ids.utc_now,
    id_source: ids.IdSource = ids.new_id,
) -> Journal:
    """The one journal of a session in this process, with the options of whoever opened it first."""
    key = (id(store), session_id)
    with _processes.lock:
        journal = _processes.journals.get(key)
        if journal is None:
            journal = Journal(
                store, session_id, deployment_id=deployment_id, clock=clock, id_source=id_source
            )
            _processes.journals[key] = journal
        return journal


def flush_journals(store: Store | None = None) -> None:
    """Write the text that waits in every journal of a store, or of all: for whoever closes the store."""
    for journal in _processes.alive():
        if store is None or journal.store is store:
            journal.flush(EXIT_SECONDS)


class _Flusher:
    """One daemon thread for all journals, started when the first rows wait. It looks at a journal at most once in
    `DELTA_SECONDS`, so that what waits briefly and is taken along by an append costs no wake-up."""

    def __init__(self) -> None:
        self._due: dict[Journal, float] = {}  # holds the journal: what waits outlives its last user
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def schedule(self, journal: Journal) -> None:
        with self._changed:
            if journal in self._due:
                return
            self._due[journal] = time.monotonic() + DELTA_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="segue-deltas", daemon=True)
                self._thread.start()
                atexit.register(flush_journals)
            if len(self._due) == 1:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            journal = self._next()
            journal._flush_held()
            del journal  # or the thread would keep the last one alive

    def _next(self) -> Journal:
        """The journal that is due first: they all wait equally long."""
        with self._changed:
            while True:
                first = next(iter(self._due), None)
                wait = None if first is None else self._due[first] - time.monotonic()
                if first is not None and wait is not None and wait <= 0:
                    del self._due[first]
                    return first
                del first
                self._changed.wait(wait)


class _Processes:
    """What this process has open. A forked child opens its own; journals it inherited start anew."""

    def __init__(self) -> None:
        self._forks_watched = False
        self._alive: weakref.WeakSet[Journal] = weakref.WeakSet()
        self._start_anew()

    def _start_anew(self) -> None:
        self.lock = threading.RLock()
        self.journals: weakref.WeakValueDictionary[tuple[int, str], Journal] = weakref.WeakValueDictionary()
        self.flusher = _Flusher()

    def watch(self, journal: Journal) -> None:
        with self.lock:
            self._alive.add(journal)
            if not self._forks_watched:
                self._forks_watched = True
                os.register_at_fork(after_in_child=self._forked)

    def alive(self) -> list[Journal]:
        with self.lock:
            return list(self._alive)

    def _forked(self) -> None:
        self._start_anew()
        for journal in list(self._alive):
            journal._start_anew()


_processes = _Processes()


def _done(seqs: list[int]) -> Future[list[int]]:
    future: Future[list[int]] = Future()
    future.set_result(seqs)
    return future


def _last(count: int, future: Future[list[int]]) -> Future[list[int]]:
    """The seqs of the last `count` rows."""
    ours: Future[list[int]] = Future()
    ours.set_running_or_notify_cancel()

    def finish(written: Future[list[int]]) -> None:
        error = written.exception()
        if error is not None:
            ours.set_exception(error)
        else:
            ours.set_result(written.result()[-count:])

    future.add_done_callback(finish)
    return ours
