"""The one background event loop that model I/O lives on, so that a synchronous `exec` also works under a running
loop, and connections are shared whoever calls."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


class Work(Future[T]):
    """A coroutine on another loop. Done when it has ended, also when it is cancelled: then it has cleaned up."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self._coroutine, self._loop = coroutine, loop
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> bool:
        self._loop.call_soon_threadsafe(self._cancel)
        return False

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.set_result(task.result())
        else:
            self.set_exception(error)


def start(coroutine: Coroutine[Any, Any, T]) -> Work[T]:
    """Run a coroutine on the background loop."""
    return Work(coroutine, _loop())


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """`start` and wait. Ctrl-C while waiting cancels the coroutine, waits until it has cleaned up, and goes on."""
    work = start(coroutine)
    try:
        return work.result()
    except BaseException:
        if not work.done():
            work.cancel()
            wait([work], 5)
        raise


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Run a function in a thread of its own under a copy of the context. A pool's threads could all be waiting for
    work that itself needs one of them. The thread is a daemon: cancelling the future leaves it running."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            value = context.run(function)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(value)

    threading.Thread(target=work, name="segue-tool", daemon=True).start()
    return future


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
