"""The journal of one session: the only writer. It stamps facts, demands the lease, appends, reads, watches.

Thread-safe. Streamed text and the starts of calls without effects are the only rows that wait: for at most 50 ms or
32 KiB, and never past the journal's next append. Everything else is queued at once, in the order of the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from segue import ids
from segue.errors import InvalidEvent, LeaseRequired
from segue.events.codec import encode_payload
from segue.events.envelope import Envelope
from segue.events.facts import Event
from segue.journal.held import DeltaKind, Held
from segue.journal.kept import V
from segue.journal.large import FOLDER, LARGE, is_large_text, read_whole, shortened
from segue.journal.processes import processes
from segue.journal.views import Views
from segue.stores.protocol import Draft, Lease, Store

DELTA_BYTES = 32 * 1024
"""How much streamed text may wait, in UTF-8."""


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
        self.start_anew()
        processes.watch(self)

    def start_anew(self) -> None:
        """Own locks, nothing held back, nothing folded: a forked child's parent writes what is held, and may
        have been folding when it forked."""
        self._lock = threading.RLock()
        self._held: Held | None = None
        self._flushes: list[tuple[Lease, Future[list[int]]]] = []
        self._views = Views(self.store, self.session_id)

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
                self.flush_held()

    def buffer(self, event: Event, *, lease: Lease) -> None:
        """Hold a fact back like streamed text, for one that nothing happens on the strength of: the start of a
        call whose code has no effect on the world. It is checked now, and written before any later row.

        Raises `InvalidEvent`, and what an earlier background write under this lease failed with.
        """
        with self._lock:
            self._holding(lease).add(event)

    def _holding(self, lease: Lease) -> Held:
        """What waits under this lease; the first to wait sets the clock."""
        self._raise_failed_flush(lease)
        if self._held is not None and self._held.lease != lease:
            self.flush_held()
        if self._held is None:
            self._held = Held(lease, self._draft)
            processes.flusher.schedule(self)
        return self._held

    def flush(self, timeout: float | None = None) -> None:
        """Write the text that waits. On return it is durable; raises what writing any of it failed with."""
        with self._lock:
            self.flush_held()
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
        if is_large_text(event):
            event = shortened(event, self._keep)
        payload = encode_payload(event)
        if len(payload) >= LARGE:
            payload = encode_payload(shortened(event, self._keep))
        return Draft(self._new_id("evt"), self.deployment_id, event.TYPE, payload, self._clock())

    def _keep(self, data: bytes) -> str:
        return self.store.put_blob(self.session_id, FOLDER, data)

    def flush_held(self) -> None:
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                self._submit_held(held)

    def _submit_held(self, held: Held) -> None:
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

    def whole(self, value: Any, digest: str) -> Any:
        """A recorded value as it was, given what its row has of it and the row's `whole`. Raises `StorageError`."""
        return read_whole(self.store, self.session_id, digest) if digest else value

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        """Seq of the last visible row, 0 for none."""
        return self.store.last_seq(self.session_id)

    def read(self, after_seq: int = 0) -> Iterator[Envelope]:
        """The visible rows after `after_seq`."""
        return self.store.read(self.session_id, after_seq)

    def watch(self, after_seq: int = 0, *, stop: threading.Event | None = None) -> Iterator[list[Envelope]]:
        """Batches of rows after `after_seq`, as they become visible anywhere, until `stop` is set; a
        `segue.stores.protocol.Stop` ends the wait for rows at once."""
        return self.store.watch(self.session_id, after_seq, stop=stop)

    def view(self, cls: type[V]) -> V:
        """The fold of all rows visible now. One instance a class, and each row is read once for all of them.

        The instance is shared and grows at the next `view` call of any thread: use `viewing` to iterate over
        one that other threads use.
        """
        return self._views.get(cls)

    def view_before(self, cls: type[V], seq: int) -> V:
        """The fold of the rows before that one, yours alone."""
        return self._views.before(cls, seq)

    @contextlib.contextmanager
    def viewing(self, cls: type[V]) -> Iterator[V]:
        """`view`, unchanged by other threads inside the with-block."""
        with self._views.lock:
            yield self._views.get(cls)

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
    with processes.lock:
        journal = processes.journals.get(key)
        if journal is None:
            journal = Journal(
                store, session_id, deployment_id=deployment_id, clock=clock, id_source=id_source
            )
            processes.journals[key] = journal
        return journal


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
