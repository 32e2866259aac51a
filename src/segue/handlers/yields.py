"""What a handler yields, written: checked, journaled, and refused where it is not the handler's to say."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from segue.errors import ApprovalRequired, HandlerError, StaleWriter
from segue.events.facts import (
    Error,
    Event,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    ToolApprovalRequired,
    ToolCall,
    ToolResult,
    TranscriptCompacted,
)
from segue.events.json_values import to_json
from segue.fold.graph import TERMINAL, CallGraph
from segue.handlers.context import SessionContext
from segue.journal import shown
from segue.session.turn import Turn
from segue.tools.digest import digest_of

ALLOWED = (
    MessageStart,
    MessageDelta,
    MessageEnd,
    ToolCall,
    ToolResult,
    ToolApprovalRequired,
    TranscriptCompacted,
    Error,
    NoMoreActions,
)
"""What a handler says. All other rows are Segue's own."""


class Yields:
    """Of one invocation. `take` returns when the event is durable; with streamed text, when it is buffered."""

    def __init__(self, turn: Turn, context: SessionContext) -> None:
        self._turn, self._context = turn, context
        self._ended = False

    async def take(self, event: Any) -> None:
        """Raises `HandlerError`, `InvalidEvent` naming the field, `StorageError`; the signal `ApprovalRequired` for a
        TOOL_APPROVAL_REQUIRED, which suspends the turn."""
        self._check(event)
        match event:
            case NoMoreActions():
                self._ended = True
            case MessageDelta():
                await self._delta(event)
            case ToolResult():
                await self._result(event)
            case ToolApprovalRequired():
                await self._ask(event)
            case TranscriptCompacted():
                await self._compact(event)
            case MessageStart():
                await self._turn.append_async(*self._context.owed_results(), event)
            case _:
                await self._turn.append_async(event)

    async def end(self) -> None:
        """The handler is exhausted."""
        if self._turn.signal() is None and (owed := self._context.owed_results()):
            await self._turn.append_async(*owed)

    def _check(self, event: Any) -> None:
        name = event.TYPE if isinstance(event, Event) else _named(event)
        if not isinstance(event, ALLOWED):
            what = (
                "only Segue writes that" if isinstance(event, Event) else "that is no event of segue.events"
            )
            raise HandlerError(f"the handler yielded {name}: {what}")
        if self._turn.signal() is not None:
            raise HandlerError(
                f"the handler yielded {name} after the turn was suspended: let ApprovalRequired out"
            )
        if self._ended:
            raise HandlerError(f"the handler yielded {name} after NO_MORE_ACTIONS")
        if getattr(event, "called_by", ""):
            raise HandlerError(
                f"the handler yielded {name} with called_by: what it yields is the conversation's own"
            )

    async def _delta(self, event: MessageDelta) -> None:
        delta = event.delta
        if (
            type(delta) is dict
            and delta.keys() == {"type", "text"}
            and delta["type"] in ("text", "reasoning")
        ):
            self._turn.stream(event.message_id, delta["type"], delta["text"], "")
        else:
            await self._turn.append_async(event)

    async def _result(self, event: ToolResult) -> None:
        with self._turn.journal.viewing(CallGraph) as graph:
            call = graph.tool_call(event.tool_call_id)
        if call is None:
            raise HandlerError(
                f"the handler yielded a TOOL_RESULT of {event.tool_call_id!r}: no call has that id"
            )
        if call.status not in TERMINAL:
            await self._turn.append_async(event)
        elif call.result != shown(to_json(event.result)):
            raise HandlerError(
                f"the handler yielded another TOOL_RESULT of {event.tool_call_id!r}: the record has its result already;"
                " ctx.execute writes it"
            )

    async def _ask(self, event: ToolApprovalRequired) -> None:
        given = self._context.as_it_would_run(event.name, event.arguments)
        digest = digest_of(event.name, given)
        await self._turn.append_async(msgspec.structs.replace(event, arguments=given, digest=digest))
        signal = self._turn.wait_opened(event.tool_call_id, "")
        raise ApprovalRequired(
            self._turn.session_id,
            signal.wait_ids,
            tool_call_id=event.tool_call_id,
            name=event.name,
            arguments=given,
        )

    async def _compact(self, event: TranscriptCompacted) -> None:
        """One of a state that has moved on is discarded."""
        self._context.keep_messages()
        with contextlib.suppress(StaleWriter):
            await self._turn.append_onto(event.replaces_up_to_seq, event)


def _named(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
