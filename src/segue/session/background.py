"""The one background event loop that model I/O lives on, so that a synchronous `exec` also works under a running
loop, and connections are shared whoever calls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def start(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on the background loop. Cancelling the future cancels it there."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """`start` and wait. Ctrl-C while waiting cancels the coroutine, waits until it has cleaned up, and goes on."""
    finished = threading.Event()

    async def watched() -> T:
        try:
            return await coroutine
        finally:
            finished.set()

    future = start(watched())
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            finished.wait(5)
        raise


def _loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child gets its own."""
    with _lock:
        if os.getpid() not in _loops:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="segue-models", daemon=True).start()
        return _loops[os.getpid()]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
