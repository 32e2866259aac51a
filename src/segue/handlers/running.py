"""Running a handler in the ambient turn: invoked once, in this task, its generator closed at once when it is left."""

from __future__ import annotations

import asyncio
from typing import Any

from segue.errors import HandlerError
from segue.events.json_values import to_json
from segue.fold.conversation import Conversation
from segue.handlers.app import AgentApp, closed
from segue.handlers.context import SessionContext
from segue.handlers.yields import Yields
from segue.session.ambient import require_writer
from segue.tools.policy import load_policy


def user_message(given: Any) -> dict[str, Any]:
    """The reason of a turn that a user begins. `given` is text, content parts, or any value that JSON can say."""
    return {"kind": "user_message", "input": to_json(given)}


async def run_handler(app: AgentApp, path: str, reason: dict[str, Any] | None = None) -> Any:
    """Invoke the handler of a route, from the first row of the ambient turn on; `reason` is that of a new turn. Gives
    the text of the conversation's last message when it is an assistant's, else None.

    What ends the turn writes its end: this raises what the handler raised, or `HandlerError`; `InvalidPolicy` before
    anything of the turn is written.
    """
    load_policy().check()
    turn = require_writer().turn
    turn.handled = True
    if reason is not None:
        turn.reason = reason
    seqs = await asyncio.to_thread(turn.append)
    context = SessionContext(turn, app.tools, seqs[0])
    yields = Yields(turn, context)
    events = app.handlers[app.route(path)](context)
    try:
        async for event in events:
            await yields.take(event)
        await yields.end()
    finally:
        await _close(events)
    with turn.journal.viewing(Conversation) as conversation:
        return last_text(conversation)


async def _close(events: Any) -> None:
    try:
        await closed(events)
    except RuntimeError as error:
        raise HandlerError("the handler yielded while it was being closed: let GeneratorExit out") from error


def last_text(conversation: Conversation) -> Any:
    """Of the last message, when it is an assistant's."""
    last = conversation.messages(-1)
    return last[0]["content"] if last and last[0]["role"] == "assistant" else None
