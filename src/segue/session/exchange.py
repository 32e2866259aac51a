"""A root call is one exchange of the conversation: what it was asked is the input of its INVOCATION_STARTED and folds
as the user message, what it gave back is written as the assistant message."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from segue.events.facts import Event, MessageDelta, MessageEnd, MessageStart
from segue.fold.graph import Node
from segue.ids import new_id
from segue.session.prompt import text
from segue.session.turn import Turn


def direct_call(asked: Any) -> dict[str, Any]:
    """The reason of a root call's invocation."""
    return {"kind": "direct_call", "input": asked}


def reply_rows(result: Any) -> list[Event]:
    """The assistant message of an exchange, from the root call's result as a JSON value."""
    message_id = new_id("msg")
    delta = {"type": "text", "text": text(result)}
    return [
        MessageStart(message_id=message_id),
        MessageDelta(message_id=message_id, delta=delta),
        MessageEnd(message_id=message_id, finish_reason="stop"),
    ]


class bare_exchange:
    """`async with`: makes a model call outside any agentic call an exchange; inside one, and in a handler, it does
    nothing. `recorded` is its first call, where the turn runs again: then the record has the question, and perhaps
    the reply."""

    def __init__(self, turn: Turn, caller: str, asked: Any, recorded: Node | None) -> None:
        self._turn, self._asked, self._recorded = turn, asked, recorded
        self._bare = not (caller or turn.handled)
        self.result: Any = None

    async def __aenter__(self) -> bare_exchange:
        if self._bare and self._recorded is None:
            await self._turn.lease_taken()
            await self._turn.submitted(self._turn.submit_exchange(direct_call(self._asked)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        replied = self._recorded is not None and self._turn.replay.replied.get(self._recorded.id)
        if self._bare and error is None and not replied:
            await self._turn.append_async(*reply_rows(self.result))
