"""One call of an agentic function, as a node of the session's graph: recorded when it starts and when it ends."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from segue.agents.options import Options
from segue.errors import RecursionLimit
from segue.events.facts import CallEnded, CallStarted, Event
from segue.events.json_values import json_or_reason
from segue.ids import new_id
from segue.session.ambient import current_call_id, current_runtime
from segue.session.context import enter_call
from segue.session.exchange import direct_call, reply_rows
from segue.session.runtime import Runtime
from segue.session.turn import Frame, Turn, error_code, error_text, status_of

DEEPEST = 64
"""Calls nested deeper than this are a runaway recursion."""


class Call:
    """`with` or `async with`: makes the call ambient, sets `result` from inside, and writes how it ended.

    A root call is durable before its code runs: it holds a person's words. The start of one further in is not waited
    for: it has no effect that is not a tool's or a model's, and those wait. The end is durable before the result is
    handed on.
    """

    def __init__(
        self,
        turn: Turn,
        *,
        name: str,
        doc: str,
        arguments: dict[str, Any],
        options: Options,
        runtime: Runtime | None,
    ) -> None:
        self._turn, self._options, self._runtime = turn, options, runtime
        self.result: Any = None
        caller = turn.frame(current_call_id())
        self._frame = Frame(
            node_id=new_id("node"),
            caller=caller,
            name=name,
            doc=doc,
            arguments=arguments,
            callers=options.callers,
            subcalls=options.subcalls,
            history=turn.history_length() if caller is None else 0,
        )
        if self._frame.depth > DEEPEST:
            raise RecursionLimit(f"{name} is nested {DEEPEST} calls deep: give its recursion an end")
        self._entered: AbstractContextManager[None] = enter_call(self._frame, runtime)

    def ambient_runtime(self) -> Runtime:
        """The runtime to fill in. Without a model its first use raises `NoModel` and says what to install."""
        return self._runtime or current_runtime() or Runtime(None)

    def __enter__(self) -> Call:
        starting = self._start()
        if starting is not None:
            starting.result()
        return self._enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            ending = self._end(error)
            if ending is not None:
                ending.result()
        finally:
            self._leave()

    async def __aenter__(self) -> Call:
        starting = self._start()
        if starting is not None:
            await self._turn.submitted(starting)
        return self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            ending = self._end(error)
            if ending is not None:
                await self._turn.submitted(ending)
        finally:
            self._leave()

    def _enter(self) -> Call:
        self._turn.push(self._frame)
        self._entered.__enter__()
        return self

    def _start(self) -> Future[list[int]] | None:
        """Record the start. The future is a root call's, to wait for."""
        self._turn.check()
        frame = self._frame
        caller = frame.caller.node_id if frame.caller else ""
        started = CallStarted(
            node_id=frame.node_id,
            kind="function",
            name=frame.name,
            called_by=caller,
            predecessor=self._turn.follow(caller, frame.node_id),
            arguments=frame.arguments,
            turn_id=self._turn.turn_id,
            doc=frame.doc,
            expose=self._options.expose,
        )
        if not caller:
            return self._turn.submit_exchange(direct_call(asked(frame.arguments)), started)
        self._turn.begin(started)
        return None

    def _end(self, error: BaseException | None) -> Future[list[int]] | None:
        """Queue the rows of the end. None where the turn's end will write them."""
        status = status_of(error)
        if not status:
            self._turn.unwound(self._frame.node_id)
            return None
        if error is None:
            return self._turn.submit(*self._completed())
        problem = {"type": type(error).__name__, "message": error_text(error), "code": error_code(error)}
        ended = CallEnded(node_id=self._frame.node_id, status=status, error=problem)  # type: ignore[arg-type]
        return self._turn.submit(ended)

    def _completed(self) -> list[Event]:
        recorded = json_or_reason(self.result)
        ended = CallEnded(node_id=self._frame.node_id, status="completed", result=recorded)
        return [ended] if self._frame.caller else [ended, *reply_rows(recorded)]

    def _leave(self) -> None:
        self._entered.__exit__(None, None, None)
        self._turn.pop(self._frame.node_id)


def asked(arguments: dict[str, Any]) -> Any:
    """What the conversation says a root call was asked: its one text argument as it is, else all arguments."""
    if len(arguments) == 1:
        (only,) = arguments.values()
        if isinstance(only, str):
            return only
    return arguments
