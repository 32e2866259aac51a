"""The turn leases that this store holds, and waiting for one."""

from __future__ import annotations

import contextlib
import os
import threading
import time

from segue.errors import SessionBusy
from segue.stores.git.layout import SessionPaths
from segue.stores.git.lease import give_back, take
from segue.stores.protocol import Lease

POLL = (0.005, 0.05)
"""Seconds between two tries for a lease that another process has: the first, and the longest."""


class Leases:
    """Thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[SessionPaths, Lease, int]] = {}
        """By token, with the descriptor whose flock is the lease."""
        self._released = threading.Condition()

    def acquire(self, paths: SessionPaths, holder: str, wait: float) -> Lease:
        """Raises `SessionBusy` after `wait` seconds, OSError."""
        deadline, pause = time.monotonic() + wait, POLL[0]
        while True:
            try:
                lease, descriptor = take(paths, holder)
            except SessionBusy:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise
                with self._released:
                    self._released.wait(min(pause, remaining))
                pause = min(pause * 1.5, POLL[1])
            else:
                self._held[lease.token] = (paths, lease, descriptor)
                return lease

    def release(self, lease: Lease) -> None:
        """Nothing when it is not held here. Raises OSError."""
        held = self._held.pop(lease.token, None)
        if held is None:
            return
        paths, known, descriptor = held
        give_back(paths, known, descriptor)
        with self._released:
            self._released.notify_all()

    def abandon(self, lease: Lease) -> None:
        """Free the lock of a session whose files are gone. Raises OSError."""
        held = self._held.pop(lease.token, None)
        if held is not None:
            os.close(held[2])

    def release_all(self) -> None:
        for _, lease, _ in list(self._held.values()):
            with contextlib.suppress(OSError):
                self.release(lease)

    def forget_after_fork(self) -> None:
        """Close the inherited descriptors and unlock nothing: the leases stay the parent's."""
        for _, _, descriptor in list(self._held.values()):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._held.clear()
        self._released = threading.Condition()
