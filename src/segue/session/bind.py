"""`bind`: a generator that keeps the session it was made in, whoever drives it, wherever it is closed."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextvars import Context
from typing import Any, TypeVar, overload

from segue.errors import UsageError
from segue.session.ambient import current_writer

T = TypeVar("T")


@overload
def bind(generator: AsyncGenerator[T, Any]) -> AsyncIterator[T]: ...
@overload
def bind(generator: Generator[T, Any, Any]) -> Iterator[T]: ...
def bind(generator: Any) -> Any:
    """Run each step of a (async) generator in one context of its own, copied here and now.

    For bodies of streaming responses and any generator that opens a `session_context` inside: two of them can be
    interleaved, and it can be left early or closed by another task, without leaking a session. The turn that is
    ambient here stays open until the generator ends. Raises `UsageError` for anything but a generator.
    """
    context, writer = contextvars.copy_context(), current_writer()
    release: Callable[[], None] = writer.turn.hold() if writer is not None else _nothing
    if isinstance(generator, AsyncGenerator):
        land = writer.turn.land_models if writer is not None else _nothing_async
        bound: Any = _async_steps(generator, context, land, release)
    elif isinstance(generator, Generator):
        bound = _steps(generator, context, release)
    else:
        release()
        raise UsageError(f"bind takes a generator or an async generator, not {type(generator).__name__}")
    weakref.finalize(bound, release)  # one that is never started never reaches its `finally`
    return bound


def _nothing() -> None:
    pass


async def _nothing_async() -> None:
    pass


def _steps(generator: Generator[T, Any, Any], context: Context, release: Callable[[], None]) -> Iterator[T]:
    try:
        while True:
            try:
                value = context.run(next, generator)
            except StopIteration:
                return
            yield value
    finally:
        try:
            context.run(generator.close)
        finally:
            release()


async def _async_steps(
    generator: AsyncGenerator[T, Any],
    context: Context,
    land: Callable[[], Coroutine[Any, Any, None]],
    release: Callable[[], None],
) -> AsyncIterator[T]:
    try:
        while True:
            try:
                value = await _in_context(_step(generator), context)
            except StopAsyncIteration:
                return
            yield value.item
    finally:
        try:
            await _in_context(generator.aclose(), context)
            await land()
        finally:
            release()


class _Item:
    """Carries a yielded value out of its task: a task cannot end with StopAsyncIteration's cousins by accident."""

    def __init__(self, item: Any) -> None:
        self.item = item


async def _step(generator: AsyncGenerator[T, Any]) -> _Item:
    return _Item(await anext(generator))


async def _in_context(step: Coroutine[Any, Any, Any], context: Context) -> Any:
    """A step is a task in the generator's own context; being cancelled here cancels it."""
    return await asyncio.get_running_loop().create_task(step, context=context)
