"""Following a journal: woken by appends of this process, by the kernel for those of others, else by polling.

| who tells | how often an idle watcher looks | a row of another process is seen after |
|---|---|---|
| inotify (Linux) | every 2 s, in case it does not tell | about a millisecond |
| nobody: no inotify, its limits reached, or it was silent about a row | 4 to 50 times a second | 20 to 250 ms |

All watchers of a process share one inotify descriptor and one thread. A watcher keeps one descriptor open, and no rows.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from segue.events.envelope import Envelope
from segue.stores.git.following import Follower
from segue.stores.git.session import GitSession
from segue.stores.protocol import Stop

if TYPE_CHECKING:
    from segue.stores.git.announcing import Announcer

log = logging.getLogger("segue.stores.git")

CHECK = 2.0
"""Seconds between two looks when the kernel tells."""
POLL = (0.02, 0.25)
"""Seconds between two looks when it does not: right after a row, and when nothing has come for a while."""
LOOK_AT_STOP = 0.05
"""Seconds within which a `stop` that cannot wake us is noticed."""


def watch_rows(session: GitSession, after_seq: int, stop: threading.Event) -> Iterator[list[Envelope]]:
    """Batches of rows, until `stop` is set or the session's store is closed.

    Raises CorruptJournal, SessionNotFound, StorageError.
    """
    with Follower(session, after_seq) as follower, _Waiter(session, stop) as waiter:
        while not waiter.ended():
            rings = session.bell.rings
            if waiter.timed_out:
                follower.check()
            for rows in follower.batches():
                yield rows
                if waiter.ended():
                    return
                waiter.found(rings)
            waiter.wait(rings)


class _Waiter(ExitStack):
    """Waits for rows, as long as nothing needs to be looked at."""

    def __init__(self, session: GitSession, stop: threading.Event) -> None:
        super().__init__()
        self.timed_out = False
        """Whether the last wait ended without anybody having told of rows."""
        self._session, self._stop = session, stop
        self._pause = POLL[0]
        self._announcer: Announcer = importlib.import_module("segue.stores.git.announcing").announcer
        self._number = self._announcer.announce(session.paths.folder, session.bell)
        self.callback(self._give_up)
        if isinstance(stop, Stop):
            self.enter_context(stop.waking(self._session.bell.ring))

    def ended(self) -> bool:
        return self._stop.is_set() or self._session.closed

    def wait(self, rings: int) -> None:
        """Until the session's bell has rung since, or it is time for a look."""
        told = self._number is not None and self._announcer.announces(self._number)
        self.timed_out = not self._wait(rings, CHECK if told else self._pause)
        self._pause = min(self._pause * 1.3, POLL[1])

    def found(self, rings: int) -> None:
        """There were rows. If the kernel said nothing about them, not even late, it is not asked again."""
        self._pause = POLL[0]
        if self.timed_out and self._number is not None:
            self.timed_out = False
            if not self._session.bell.wait(rings, POLL[0]):
                log.info("%s is watched by polling: inotify does not tell", self._session.paths.folder)
                self._give_up()

    def _wait(self, rings: int, seconds: float) -> bool:
        if isinstance(self._stop, Stop):
            return self._session.bell.wait(rings, seconds)
        deadline = time.monotonic() + seconds
        while not self._stop.is_set() and (left := deadline - time.monotonic()) > 0:
            if self._session.bell.wait(rings, min(left, LOOK_AT_STOP)):
                return True
        return False

    def _give_up(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            self._announcer.cancel(number, self._session.bell)
