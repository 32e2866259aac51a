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
from segue.fold.graph import TERMINAL
from segue.ids import new_id
from segue.session.ambient import current_call_id, current_runtime
from segue.session.context import enter_call
from segue.session.exchange import direct_call, reply_rows
from segue.session.restored import NO_RESULT, restored
from segue.session.runtime import Runtime
from segue.session.turn import Frame, Turn, error_code, error_text, status_of
from segue.typed.forms import Form

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
        self._recorded = turn.recorded(caller.node_id if caller else "", "function", name, arguments)
        self._frame = Frame(
            node_id=self._node_id(),
            caller=caller,
            name=name,
            doc=doc,
            arguments=arguments,
            callers=options.callers,
            subcalls=options.subcalls,
            history=0 if caller else self._history(),
        )
        if self._frame.depth > DEEPEST:
            raise RecursionLimit(f"{name} is nested {DEEPEST} calls deep: give its recursion an end")
        self._entered: AbstractContextManager[None] = enter_call(self._frame, runtime)
        self._suspended = False
        """Whether what its code gave is discarded."""

    def _node_id(self) -> str:
        """A recorded call keeps its node; one that failed, and would only fail again, is done over as a new one."""
        known, new = self._recorded, new_id("node")
        if known is None:
            return new
        if known.status in ("failed", "cancelled") and not self._turn.replay.went_on(known):
            self._turn.replay.do_again(known, new)
            return new
        return known.id

    def _history(self) -> int:
        if self._recorded is None:
            return self._turn.history_length()
        return self._turn.history_before(self._recorded)

    @property
    def _is_over(self) -> bool:
        """Whether the record has the end of this very call: running it again writes nothing about it."""
        return (
            self._recorded is not None
            and self._recorded.id == self._frame.node_id
            and self._recorded.status in TERMINAL
        )

    def recorded_result(self, form: Form | None) -> Any:
        """The result that the record has, as a value of that form; `NO_RESULT` when the call has to be
        entered (again): it did not end well, or its result is not what the function gave, to the last bit."""
        if not self._is_over or self._recorded is None or self._recorded.status != "completed":
            return NO_RESULT
        result = self._turn.journal.whole(self._recorded.result, self._recorded.whole)
        return restored(result, form)

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
        self._pass_on(error)

    async def __aenter__(self) -> Call:
        if not self._is_over:
            await self._turn.lease_taken()
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
        self._pass_on(error)

    def _enter(self) -> Call:
        self._turn.push(self._frame)
        self._entered.__enter__()
        return self

    def _start(self) -> Future[list[int]] | None:
        """Record the start. The future is a root call's, to wait for."""
        if self._is_over:
            return None
        frame, known = self._frame, self._recorded
        caller = frame.caller.node_id if frame.caller else ""
        self._turn.check(caller)
        started = CallStarted(
            node_id=frame.node_id,
            kind="function",
            name=frame.name,
            called_by=caller,
            predecessor=self._turn.follow(caller, frame.node_id, known),
            arguments=frame.arguments,
            attempt=1 if known is None else known.attempt + 1,
            instead_of="" if known is None or known.id == frame.node_id else known.id,
            turn_id=self._turn.turn_id,
            doc=frame.doc,
            expose=self._options.expose,
        )
        if caller:
            self._turn.begin(started)
            return None
        if known is not None or self._turn.handled:  # what it was asked is in the conversation
            return self._turn.submit(started)
        return self._turn.submit_exchange(direct_call(asked(frame.arguments)), started)

    def _end(self, error: BaseException | None) -> Future[list[int]] | None:
        """Queue the rows of the end. None where the record has them, or the turn's end will write them."""
        if self._is_over:
            return None
        if self._turn.is_suspended(self._frame.node_id):
            self._suspended = True
            return self._turn.submit(CallEnded(node_id=self._frame.node_id, status="suspended"))
        status = "" if self._turn.has_diverged else status_of(error)
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
        return [ended] if self._frame.caller or self._turn.handled else [ended, *reply_rows(recorded)]

    def _pass_on(self, error: BaseException | None) -> None:
        """A suspended call is left with the signal: its caller is not to go on with what its code made of that."""
        if self._suspended and (error is None or isinstance(error, (Exception, BaseExceptionGroup))):
            signal = self._turn.signal()
            assert signal is not None, "it is suspended because the turn waits"
            raise signal from error

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
