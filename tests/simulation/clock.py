"""One event loop in one thread with a clock of its own: nothing waits, and the same seed gives the same schedule.

The production code runs on it as it is. Only what would start a thread is done on the loop instead: the models' loop,
the threads of `asyncio.to_thread` and of sync tools, the one that writes streamed text after 50 ms, the one that
`drive` watches with. Ids come from the seed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import random
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any
from unittest import mock

from world import current

from segue import ids
from segue.events.envelope import Envelope
from segue.handlers import drive
from segue.journal import Journal, processes
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


async def _followed(
    journal: Journal, after_seq: int, turn: asyncio.Task[None]
) -> AsyncIterator[list[Envelope]]:
    await asyncio.wait([turn])
    yield list(journal.read(after_seq))


@contextlib.contextmanager
def on_one_thread(seed: int) -> Iterator[None]:
    chance = random.Random(f"ids of {seed}")

    def letters(length: int) -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz234567", k=length))

    with (
        mock.patch.object(ids, "_random", letters),
        mock.patch.object(drive, "_followed", _followed),
        mock.patch.object(background, "_loop", asyncio.get_running_loop),
        mock.patch.object(tailing.tails, "add"),
        mock.patch.object(background, "in_thread", _in_thread),
        mock.patch.object(processes.Flusher, "schedule"),
    ):
        yield


def _task(tasks: list[asyncio.Task[Any]], loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Remembered in the order they were made, also by the simulated process that made it."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context") or contextvars.copy_context()
    if (process := context.get(current)) is not None:
        process.tasks.append(task)
    tasks.append(task)
    return task


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """What `main` gives or raises. Every task is over afterwards."""
    loop = SimulatedLoop()
    tasks: list[asyncio.Task[Any]] = []
    loop.set_task_factory(functools.partial(_task, tasks))
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(
        lambda loop, context: None
    )  # a task of a dead process that nobody asks any more
    try:
        return loop.run_until_complete(main)
    finally:
        for task in tasks:
            task.cancel()
        for _ in range(50):
            loop.call_soon(loop.stop)
            loop.run_forever()
        asyncio.set_event_loop(None)
        loop.close()
