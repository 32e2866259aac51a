"""Recorded steps: values and effects of plain code that a resumed program gets from the record instead of again."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import uuid as uuids
from collections.abc import Callable
from typing import Any

from segue.events.facts import CallEnded, CallStarted
from segue.events.json_values import json_or_reason, to_json
from segue.fold.graph import TERMINAL, Node
from segue.fold.values import copy_json
from segue.ids import new_id
from segue.session.ambient import current_call_id, require_writer
from segue.session.restored import NO_RESULT, raised, restored
from segue.session.turn import Turn, error_code, error_text, status_of
from segue.typed.signature import returned_form


def step(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `function(*args, **kwargs)` once, and record what it gives; a coroutine function's step is awaited.

    When the turn runs again, a finished step gives its recorded value (as its return annotation says; without one, as
    JSON), or raises its recorded failure where the program had gone on after it. A step that was interrupted runs
    again: make an effect that must not happen twice a tool. Raises `NoSession`, `ReplayDivergence`, `StorageError`.
    """
    made = _Step(function, {"args": to_json(list(args)), "kwargs": to_json(kwargs)})
    run = _run_async if inspect.iscoroutinefunction(function) else _run
    return run(made, lambda: function(*args, **kwargs))


def now() -> datetime.datetime:
    """The time in UTC, recorded: a resumed program sees the one that it saw first."""
    recorded: datetime.datetime = step(_now)
    return recorded


def uuid() -> uuids.UUID:
    """A random UUID, recorded: a resumed program gets the one that it had first."""
    recorded: uuids.UUID = step(_uuid)
    return recorded


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _uuid() -> uuids.UUID:
    return uuids.uuid4()


class _Step:
    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._turn, self._caller = require_writer().turn, current_call_id()
        self._form = returned_form(function)
        self._name, self._arguments = f"{function.__module__}:{function.__qualname__}", arguments
        known = self._turn.recorded(self._caller, "step", self._name, arguments)
        self._known = known
        self._node_id = new_id("node") if known is None or known.status in TERMINAL else known.id

    def from_record(self) -> Any:
        """The recorded value; `NO_RESULT` when the step is to be done. Raises the recorded failure."""
        known = self._known
        if known is None:
            return NO_RESULT
        if known.status == "failed" and self._turn.replay.went_on(known):
            raise raised(known.error or {})
        if known.status != "completed":
            return NO_RESULT
        result = self._turn.journal.whole(known.result, known.whole)
        return copy_json(result) if self._form is None else restored(result, self._form)

    def started(self) -> CallStarted:
        self._turn.check(self._caller)
        known: Node | None = self._known
        return CallStarted(
            node_id=self._node_id,
            kind="step",
            name=self._name,
            called_by=self._caller,
            predecessor=self._turn.follow(self._caller, self._node_id, known),
            arguments=self._arguments,
            attempt=1 if known is None else known.attempt + 1,
            instead_of="" if known is None or known.id == self._node_id else known.id,
            turn_id=self._turn.turn_id,
        )

    @property
    def turn(self) -> Turn:
        return self._turn

    def ended(self, value: Any) -> CallEnded:
        return CallEnded(node_id=self._node_id, status="completed", result=json_or_reason(value))

    def failed(self, error: BaseException) -> list[CallEnded]:
        status = status_of(error)
        if not status:
            self._turn.unwound(self._node_id)
            return []
        problem = {"type": type(error).__name__, "message": error_text(error), "code": error_code(error)}
        return [CallEnded(node_id=self._node_id, status=status, error=problem)]  # type: ignore[arg-type]


def _run(made: _Step, work: Callable[[], Any]) -> Any:
    recorded = made.from_record()
    if recorded is not NO_RESULT:
        return recorded
    made.turn.append(made.started())
    try:
        value = work()
    except BaseException as error:
        made.turn.append(*made.failed(error))
        raise
    made.turn.append(made.ended(value))
    return value


async def _run_async(made: _Step, work: Callable[[], Any]) -> Any:
    recorded = made.from_record()
    if recorded is not NO_RESULT:
        return recorded
    return await made.turn.to_its_end(_made(made, made.started(), work))


async def _made(made: _Step, started: CallStarted, work: Callable[[], Any]) -> Any:
    await made.turn.append_async(started)
    try:
        value = await work()
    except BaseException as error:
        await asyncio.shield(made.turn.append_async(*made.failed(error)))
        raise
    await made.turn.append_async(made.ended(value))
    return value
