"""The model calls of one `exec`: where the turn runs again, those that are in the record are answered from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from segue.events.json_values import to_json
from segue.fold.graph import Node
from segue.models.protocol import Model
from segue.session.prompt import Message, Prompt, render
from segue.session.reply import Wanted
from segue.session.restored import raised
from segue.session.sending import Options, Reply, Sender, recorded_reply
from segue.session.writer import SessionNodeWriter


class ModelCall:
    """Sends the requests of one `exec`. Each goes on where the one before left off: what was said since the first is
    kept here, what came before the first is rendered once."""

    def __init__(
        self,
        model: Model,
        writer: SessionNodeWriter,
        caller: str,
        wanted: Wanted,
        options: Options,
        tools: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.model, self.turn, self.caller = model, writer.turn, caller
        self._sender = Sender(
            model, writer.turn, caller, options, tools=tools, schema=wanted.schema, choices=wanted.choices
        )
        self._history = 0 if caller else writer.turn.history_length()
        self._before: Prompt | None = None
        self._first_seq: int | None = None
        """Of the first call of this `exec` that the record has: what is in it from there on is not before this."""
        self._said: list[Message] = []
        self._asked = ""
        """Node of the call that was sent the last request of the caller's own; its reply to tools continues it."""

    async def ask(self, content: Any) -> Reply:
        """Send a request. Raises what `Runtime.exec` raises."""
        self._asked = ""
        return await self._send([{"role": "user", "content": content}], {"content": content})

    async def go_on(self, results: list[Message]) -> Reply:
        """Send the results of the calls that the last reply made."""
        return await self._send(results, {"continues": self._asked})

    def recorded(self, content: Any) -> Node | None:
        """The recorded call that asked this, if the turn runs again and has not come to it yet."""
        return self.turn.replay.peek(self.caller, "model", self.model.name, to_json({"content": content}))

    async def _send(self, messages: list[Message], arguments: dict[str, Any]) -> Reply:
        arguments = to_json(arguments)
        known = self.turn.recorded(self.caller, "model", self.model.name, arguments)
        if known is not None and self._first_seq is None:
            self._first_seq = known.seq
        reply = None if known is None else self._from_record(known)
        if reply is None:
            self.turn.check(self.caller)
            reply = await self._sender.send(await asyncio.to_thread(self._prompt, messages), arguments, known)
        self._said += [*messages, reply.message]
        self._asked = self._asked or reply.node_id
        return reply

    def _from_record(self, known: Node) -> Reply | None:
        """The recorded reply. Raises the recorded failure where the program had gone on after it."""
        if known.status == "completed":
            return recorded_reply(known, self.turn.journal.whole(known.result, known.whole))
        if known.status == "failed" and self.turn.replay.went_on(known):
            raise raised(known.error or {})
        return None

    def _prompt(self, messages: list[Message]) -> Prompt:
        """The newest message is the request, all before it history, which the record shares between calls."""
        if self._before is None:
            self._before = self._rendered()
        before = self._before
        history = [*before.history, *self._said, *messages[:-1]]
        return Prompt(system=before.system, history=history, request=messages[-1:])

    def _rendered(self) -> Prompt:
        if self.caller:
            return render(self.turn.journal, self.turn.frame(self.caller), [], before=self._first_seq)
        history = render(self.turn.journal, None, []).history[: self._history]
        return Prompt(system="", history=history, request=[])
