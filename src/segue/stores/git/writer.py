"""The threads that write. One session's appends are written by one thread at a time, together when several
wait.

While a session's rows are being synced, what arrives meanwhile gathers and shares the next sync; sessions are
synced in parallel. An append to an idle session costs one hand-off. The threads are daemons, started when
needed, so they serve until the very end of the process; what was not acknowledged by then is not promised.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from segue.stores.protocol import Draft, Lease
from segue.threads import background_thread

THREADS = 4
"""At most that many sessions are synced at once."""


class Request:
    """One append on its way."""

    __slots__ = ("drafts", "expected_seq", "future", "lease")

    def __init__(self, drafts: Sequence[Draft], lease: Lease | None, expected_seq: int | None) -> None:
        self.drafts, self.lease, self.expected_seq = drafts, lease, expected_seq
        self.future: Future[list[int]] = Future()
        self.future.set_running_or_notify_cancel()  # what was submitted is written


class Writer:
    """`write(session_id, requests)` resolves all their futures; what it raises fails them. Thread-safe."""

    def __init__(self, write: Callable[[str, list[Request]], None], threads: int = THREADS) -> None:
        self._write = write
        self._most = threads
        self._started = 0
        self._waiting: dict[str, deque[Request]] = {}
        """Sessions with work: each is in the queue once, or in a thread's hands."""
        self._ready: SimpleQueue[str | None] = SimpleQueue()
        self._idle = threading.Condition()

    def submit(self, session_id: str, request: Request) -> None:
        with self._idle:
            waiting = self._waiting.get(session_id)
            if waiting is not None:
                waiting.append(request)
                return
            self._waiting[session_id] = deque([request])
            start = self._started < min(self._most, len(self._waiting))
            self._started += start
        self._ready.put(session_id)
        if start and not self._start():
            self._step(self._ready.get())

    def drain(self) -> None:
        """Wait until nothing is on its way."""
        with self._idle:
            self._idle.wait_for(lambda: not self._waiting)

    def stop(self) -> None:
        """Finish what was submitted, then end the threads."""
        self.drain()
        for _ in range(self._started):
            self._ready.put(None)

    def _start(self) -> bool:
        try:
            background_thread(self._run, "segue-append").start()
        except RuntimeError:  # the interpreter is going down: no new threads, so the caller does the work
            self._started -= 1
            return self._started > 0
        return True

    def _run(self) -> None:
        while self._step(self._ready.get()):
            pass

    def _step(self, session_id: str | None) -> bool:
        if session_id is None:
            return False
        with self._idle:
            waiting = self._waiting[session_id]
            requests = list(waiting)
            waiting.clear()
        self._perform(session_id, requests)
        with self._idle:
            if self._waiting[session_id]:
                self._ready.put(session_id)  # behind the other sessions
            else:
                del self._waiting[session_id]
                if not self._waiting:
                    self._idle.notify_all()
        return True

    def _perform(self, session_id: str, requests: list[Request]) -> None:
        try:
            self._write(session_id, requests)
        except BaseException as error:
            for request in requests:
                if not request.future.done():
                    request.future.set_exception(error)
