"""The turn leases that this store holds, and waiting for one that another process has.

Waiting is polling: 20 to 200 looks a second. A process that takes turn after turn would always win against one that
polls; so whoever has just given a lease back gives way, once, to other processes that wait for it.
"""

from __future__ import annotations

import contextlib
import threading
import time

from segue.errors import SegueError, SessionBusy
from segue.stores.git.layout import SessionPaths
from segue.stores.git.lease import give_back, read_note, take
from segue.stores.git.locks import unlock
from segue.stores.git.queueing import Queue
from segue.stores.protocol import Lease

POLL = (0.005, 0.05)
"""Seconds between two tries for a lease that another process has: the first, and the longest."""
GIVE_WAY = 2 * POLL[1]
"""Seconds after giving a lease back in which other processes that wait come first."""


class Leases:
    """Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[SessionPaths, Lease, int]] = {}
        """By token, with the descriptor whose flock is the lease."""
        self._released = threading.Condition()
        self._queue = Queue()
        self._given_back: dict[str, tuple[int, float]] = {}
        """By session: which epoch was given back here within the last moments, and when."""

    def acquire(self, paths: SessionPaths, holder: str, wait: float) -> Lease:
        """Raises `SessionBusy` after `wait` seconds, `SessionNotFound`, OSError."""
        deadline = time.monotonic() + wait
        try:
            return self._take(paths, holder)
        except SessionBusy:
            if wait <= 0:
                raise
        with self._queue.joined(paths):
            return self._wait(paths, holder, deadline)

    def release(self, lease: Lease) -> None:
        """Nothing when it is not held here. Raises `SessionBusy`, `SessionNotFound`, OSError."""
        held = self._held.pop(lease.token, None)
        if held is None:
            return
        paths, known, descriptor = held
        try:
            give_back(paths, known, descriptor)
        finally:
            self._note_given_back(lease)

    def abandon(self, lease: Lease) -> None:
        """Free the lock of a session whose files are gone."""
        held = self._held.pop(lease.token, None)
        if held is not None:
            unlock(held[2])

    def release_all(self) -> None:
        for _, lease, _ in list(self._held.values()):
            with contextlib.suppress(OSError, SegueError):
                self.release(lease)

    def _take(self, paths: SessionPaths, holder: str) -> Lease:
        self._give_way(paths)
        lease, descriptor = take(paths, holder)
        self._held[lease.token] = (paths, lease, descriptor)
        return lease

    def _wait(self, paths: SessionPaths, holder: str, deadline: float) -> Lease:
        pause = POLL[0]
        while True:
            try:
                return self._take(paths, holder)
            except SessionBusy:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise
            with self._released:
                self._released.wait(min(pause, remaining))
            pause = min(pause * 1.5, POLL[1])

    def _note_given_back(self, lease: Lease) -> None:
        now = time.monotonic()
        with self._released:
            recent = {key: one for key, one in self._given_back.items() if now - one[1] < GIVE_WAY}
            self._given_back = recent | {lease.session_id: (lease.epoch, now)}
            self._released.notify_all()

    def _give_way(self, paths: SessionPaths) -> None:
        epoch, since = self._given_back.get(paths.session_id, (0, 0.0))
        until = since + GIVE_WAY
        if time.monotonic() < until and self._queue.has_others(paths):
            while time.monotonic() < until and read_note(paths).epoch <= epoch:
                time.sleep(POLL[0] / 2)
