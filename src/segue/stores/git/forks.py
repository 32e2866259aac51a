"""After a fork: the child's stores begin anew, and every lock stays the parent's.

An flock belongs to the open file, which a fork shares: while a child has the descriptor, the lock outlives the
parent. So descriptors of locks are opened and closed here, noted, and closed first thing in every forked child,
never unlocked there. No fork can come between opening one and noting it. (Programs that are executed do not
inherit them: Python's descriptors are close-on-exec.)
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from pathlib import Path
from typing import Protocol


class Forkable(Protocol):
    def forget_after_fork(self) -> None: ...


_gate = threading.RLock()
"""Held while a lock's descriptor is opened or closed, and during a fork."""
_descriptors: set[int] = set()
_stores: weakref.WeakSet[Forkable] = weakref.WeakSet()
_registered = False


def watch_forks(store: Forkable) -> None:
    """Call `forget_after_fork` in every child forked from now on, first thing, for as long as the store
    lives.
    """
    with _gate:
        _stores.add(store)
        _register()


def open_lock(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """A descriptor to lock the file with, which is made if it is missing. Raises OSError."""
    with _gate:
        _register()
        descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
        _descriptors.add(descriptor)
        return descriptor


def close_lock(descriptor: int) -> None:
    """Nothing in a child that was forked while it was open."""
    with _gate:
        if descriptor in _descriptors:
            _descriptors.remove(descriptor)
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _register() -> None:
    global _registered
    if not _registered:
        _registered = True
        os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


def _before_fork() -> None:
    _gate.acquire()


def _in_parent() -> None:
    _gate.release()


def _in_child() -> None:
    global _gate
    _gate = threading.RLock()
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    for store in list(_stores):
        store.forget_after_fork()
