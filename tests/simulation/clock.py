"""One event loop in one thread with a clock of its own: nothing waits, and the same seed gives the same schedule.

The production code runs on it as it is. Only what would start a thread is done on the loop instead: the models' loop,
the threads of `asyncio.to_thread` and of sync tools, the thread that writes streamed text after 50 ms.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from unittest import mock

from segue.journal import processes
from segue.session import background, tailing


class _Selector(selectors.SelectSelector):
    """Never waits: time jumps to when the next timer is due."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self.now += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


def _in_thread(function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    return future


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    with (
        mock.patch.object(background, "_loop", asyncio.get_running_loop),
        mock.patch.object(tailing.tails, "add"),
        mock.patch.object(background, "in_thread", _in_thread),
        mock.patch.object(processes.Flusher, "schedule"),
    ):
        yield


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """What `main` gives or raises. Every task is over afterwards."""
    loop = SimulatedLoop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(
        lambda loop, context: None
    )  # a task of a dead process that nobody asks any more
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        for _ in range(50):
            loop.call_soon(loop.stop)
            loop.run_forever()
        asyncio.set_event_loop(None)
        loop.close()
