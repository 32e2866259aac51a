"""Who waits for a session's turn lease: every process that does shares the lock on `lock/waiting`.

It is a courtesy, no right: the lease itself is the lock on `lock/turn`, whoever waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterator

import msgspec

from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import opened, try_lock, unlock

_PROBES = (0.0005, 0.001, 0.002, 0.0)
"""Seconds between tries to share the lock: somebody who only asks has it for a moment."""


class _Place(msgspec.Struct):
    descriptor: int
    waiting: int = 0
    """How many threads of this process wait."""


class Queue:
    """This process among those that wait. Thread-safe."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._changing = threading.Lock()

    @contextlib.contextmanager
    def joined(self, paths: SessionPaths) -> Iterator[None]:
        """Say that this process waits. Raises `SessionNotFound`, OSError."""
        with self._changing:
            place = self._places.get(paths.session_id)
            if place is None:
                place = self._places[paths.session_id] = _Place(opened(paths, paths.waiting_lock))
                _share(place.descriptor)
            place.waiting += 1
        try:
            yield
        finally:
            with self._changing:
                place.waiting -= 1
                if not place.waiting:
                    del self._places[paths.session_id]
                    unlock(place.descriptor)

    def has_others(self, paths: SessionPaths) -> bool:
        """Whether another process waits for the lease. Raises `SessionNotFound`, OSError."""
        with self._changing:
            place = self._places.get(paths.session_id)
            descriptor = opened(paths, paths.waiting_lock) if place is None else place.descriptor
            try:
                return not try_lock(descriptor)
            finally:
                if place is None:
                    unlock(descriptor)
                else:
                    _share(descriptor)


def _share(descriptor: int) -> None:
    for pause in _PROBES:
        if try_lock(descriptor, fcntl.LOCK_SH):
            return
        time.sleep(pause)
