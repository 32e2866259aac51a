"""After a fork: the child's stores begin anew, whatever the parent's threads were doing."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def forget_after_fork(self) -> None: ...


_stores: weakref.WeakSet[Forkable] = weakref.WeakSet()
_registered = False


def watch_forks(store: Forkable) -> None:
    """Call `forget_after_fork` in every child forked from now on, first thing, for as long as the store
    lives.
    """
    global _registered
    _stores.add(store)
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    for store in list(_stores):
        store.forget_after_fork()
