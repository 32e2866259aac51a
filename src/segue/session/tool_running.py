"""Running one tool's code: on the caller's loop or in a thread of its own, under its time limit, in the session."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

from segue.errors import ReplayDivergence, ToolFailed
from segue.session import background
from segue.session.turn import Frame, Turn, error_text
from segue.tools.tool import Tool

GRACE = 10.0
"""Seconds that a cancelled turn waits for a tool that runs in a thread."""


async def run_tool(
    turn: Turn, tool: Tool[..., Any], arguments: dict[str, Any], frame: Frame, *, own_loop: bool
) -> Any:
    """What the tool gives. An async one runs on this loop with `own_loop`, else on a loop of its own in a thread, as
    sync ones have a thread: so nothing that a tool does holds up a model's stream.

    Raises `ToolFailed` for whatever it raises but signals, `ReplayDivergence`.
    """
    limit = asyncio.timeout(tool.timeout)
    try:
        async with limit:
            if tool.is_async and own_loop:
                return await _on_this_loop(turn, tool, arguments, frame)
            work = background.in_thread(functools.partial(_in_thread, turn, tool, arguments, frame))
            return await _ended(turn, tool, asyncio.wrap_future(work))
    except (ToolFailed, ReplayDivergence):
        raise
    except Exception as error:
        if limit.expired():
            late = f"{tool.name} was not done after {tool.timeout:g} s; it may still be running"
            raise ToolFailed(late) from error
        raise ToolFailed(f"{type(error).__name__}: {error_text(error)}") from error


async def _ended(turn: Turn, tool: Tool[..., Any], work: asyncio.Future[Any]) -> Any:
    """A thread cannot be stopped: when the turn is cancelled, the tool is waited for, and what it gives is recorded."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not turn.is_stopped:
            raise
    await asyncio.wait([work], timeout=GRACE)
    if not work.done():
        raise ToolFailed(f"{tool.name} was still running {GRACE:g} s after the turn was cancelled")
    return work.result()


async def _on_this_loop(turn: Turn, tool: Tool[..., Any], arguments: dict[str, Any], frame: Frame) -> Any:
    with _no_exit(), turn.enter_call(frame):
        return await tool(**arguments)


def _in_thread(turn: Turn, tool: Tool[..., Any], arguments: dict[str, Any], frame: Frame) -> Any:
    with _no_exit(), turn.enter_call(frame):
        value = tool(**arguments)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


@contextlib.contextmanager
def _no_exit() -> Iterator[None]:
    """A SystemExit would end the event loop that waits for the tool."""
    try:
        yield
    except SystemExit as error:
        raise ToolFailed(f"it called sys.exit({error.code!r})") from error


async def _awaited(value: Any) -> Any:
    return await value
