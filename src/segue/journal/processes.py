"""The journals that this process has open, and the thread that writes what they hold back."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from segue.stores.protocol import Store
from segue.threads import background_thread

if TYPE_CHECKING:
    from segue.journal.journal import Journal

DELTA_SECONDS = 0.05
"""How long streamed text may wait for more of it."""
EXIT_SECONDS = 5.0
"""How long the exit of the interpreter may take to write what still waits, per journal."""


class Flusher:
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
                self._thread = background_thread(self._run, "segue-deltas")
                self._thread.start()
                atexit.register(flush_journals)
            if len(self._due) == 1:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            journal = self._next()
            journal.flush_held()
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


class Processes:
    """What this process has open. A forked child opens its own; journals it inherited start anew."""

    def __init__(self) -> None:
        self._forks_watched = False
        self._alive: weakref.WeakSet[Journal] = weakref.WeakSet()
        self._start_anew()

    def _start_anew(self) -> None:
        self.lock = threading.RLock()
        self.journals: weakref.WeakValueDictionary[tuple[int, str], Journal] = weakref.WeakValueDictionary()
        self.flusher = Flusher()

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
            journal.start_anew()


processes = Processes()


def flush_journals(store: Store | None = None) -> None:
    """Write the text that waits in every journal of a store, or of all: for whoever closes the store."""
    for journal in processes.alive():
        if store is None or journal.store is store:
            journal.flush(EXIT_SECONDS)
