"""Sending one request to a model: a recorded node before and after, the reply journaled as it streams, retries, and a
deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from segue.errors import ModelError, ModelTimeout
from segue.events.facts import CallEnded, CallStarted, Event, MessageEnd, MessageStart, ToolCall
from segue.fold.graph import TERMINAL, Node
from segue.fold.provider import provider_messages
from segue.ids import new_id
from segue.models.protocol import Finish, Model, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk
from segue.session.prompt import Message, Prompt
from segue.session.sent import record_sent
from segue.session.turn import Turn, error_code, error_text, status_of
from segue.typed.strict_json import NotJson, read_json

FIRST_PAUSE = 0.5
"""Seconds before the first retry; each further one doubles it, up to LONGEST_PAUSE."""
LONGEST_PAUSE = 30.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    on_text: Callable[[str], None] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    retries: int = 4
    timeout: float | None = 600.0


class Reply(msgspec.Struct, frozen=True):
    node_id: str
    """Of the model call."""
    text: str
    calls: list[ToolCallChunk] = []
    """Their ids are unique in the session."""

    @property
    def message(self) -> Message:
        """As the next request of the same `exec` repeats it."""
        if not self.calls:
            return {"role": "assistant", "content": self.text}
        return {"role": "assistant", "content": self.text, "tool_calls": [_wire(call) for call in self.calls]}

    @property
    def recorded(self) -> Any:
        """The model node's result: the text; with calls `{text, tool_calls}`."""
        if not self.calls:
            return self.text
        return {"text": self.text, "tool_calls": msgspec.to_builtins(self.calls)}


class Sender:
    """Sends requests of one caller, with one deadline for all of them.

    With `speaks` the replies are the conversation's own messages, else each is part of its model call. What is in the
    conversation is said: such a reply is not asked for again once some of it has been shown.
    """

    def __init__(
        self,
        model: Model,
        turn: Turn,
        caller: str,
        options: Options,
        *,
        tools: Sequence[dict[str, Any]] = (),
        schema: dict[str, Any] | None = None,
        choices: Sequence[str] = (),
        speaks: bool = False,
    ) -> None:
        self.model, self.turn, self.caller = model, turn, caller
        self._options, self._speaks = options, speaks
        self._tools, self._schema, self._choices = list(tools), schema, list(choices)
        self._deadline = None if options.timeout is None else time.monotonic() + options.timeout

    async def send(self, prompt: Prompt, arguments: dict[str, Any], known: Node | None = None) -> Reply:
        """`arguments` are the node's; an unfinished `known` one is taken up. Raises what `Runtime.exec` raises."""
        request = self._request(prompt)
        node_id = new_id("node") if known is None or known.status in TERMINAL else known.id
        digest = await asyncio.to_thread(self._begun, prompt, request)
        await self.turn.append_async(self._started(node_id, arguments, digest, known))
        try:
            reply, rows = await self._with_retries(node_id, request)
        except BaseException as error:
            await self._failed(node_id, error)
            raise
        await self.turn.append_async(*rows)
        self.turn.meter.look()
        return reply

    def _begun(self, prompt: Prompt, request: ModelRequest) -> str:
        """The digest of what is sent. Raises `BudgetExceeded`."""
        self.turn.meter.begin(self.model.name)
        return record_sent(self.turn.journal.store, self.turn.session_id, prompt, request, self.model.name)

    def _request(self, prompt: Prompt) -> ModelRequest:
        options = self._options
        return ModelRequest(
            messages=provider_messages(prompt.messages, self.model.dialect),
            tools=self._tools,
            schema=self._schema,
            choices=self._choices,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            stop=list(options.stop),
        )

    def _started(
        self, node_id: str, arguments: dict[str, Any], digest: str, known: Node | None
    ) -> CallStarted:
        return CallStarted(
            node_id=node_id,
            kind="model",
            name=self.model.name,
            called_by=self.caller,
            predecessor=self.turn.follow(self.caller, node_id, known),
            arguments=arguments,
            attempt=1 if known is None else known.attempt + 1,
            instead_of="" if known is None or known.id == node_id else known.id,
            turn_id=self.turn.turn_id,
            context=digest,
        )

    async def _failed(self, node_id: str, error: BaseException) -> None:
        status = status_of(error)
        if not status:
            self.turn.unwound(node_id)
            return
        problem = {"type": type(error).__name__, "message": error_text(error), "code": error_code(error)}
        rows = self.turn.submit(CallEnded(node_id=node_id, status=status, error=problem))  # type: ignore[arg-type]
        await self.turn.submitted(rows)

    # --- attempts ---

    async def _with_retries(self, node_id: str, request: ModelRequest) -> tuple[Reply, list[Event]]:
        failures = 0
        while True:
            streamed = _Streamed(node_id)
            try:
                await self._attempt(streamed, request)
            except ModelError as error:
                failures += 1
                said = self._speaks and streamed.shown
                if not error.retryable or failures > self._options.retries or said:
                    raise
                await self._pause(failures, error)
            else:
                return self._replied(streamed)

    async def _pause(self, failures: int, error: ModelError) -> None:
        """Wait before trying again: as long as the provider asks, else twice as long each time."""
        pause = (
            min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
            if error.retry_after is None
            else error.retry_after
        )
        if self._deadline is not None and time.monotonic() + pause >= self._deadline:
            message = f"no reply within {self._options.timeout:g} s; the last attempt failed with: {error}"
            raise ModelTimeout(message) from error
        await asyncio.sleep(pause)

    async def _attempt(self, streamed: _Streamed, request: ModelRequest) -> None:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        try:
            async with asyncio.timeout(left):
                await self._stream(streamed, msgspec.structs.replace(request, timeout=left))
        except TimeoutError as error:
            raise ModelTimeout(f"no reply within {self._options.timeout:g} s") from error

    async def _stream(self, streamed: _Streamed, request: ModelRequest) -> None:
        """Take the reply as it streams; each piece is journaled."""
        if not self._speaks:
            await self._begin(streamed)
        async with aclosing(self.model.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if not streamed.shown and isinstance(chunk, TextChunk | ReasoningChunk | ToolCallChunk):
                    await self._begin(streamed)
                match chunk:
                    case TextChunk(text):
                        streamed.texts.append(text)
                        self._show(streamed, text)
                    case ReasoningChunk(text):
                        self.turn.stream(streamed.message_id, "reasoning", text, self._owner(streamed))
                    case ToolCallChunk():
                        streamed.calls.append(chunk)
                    case Finish():
                        streamed.finish = chunk

    async def _begin(self, streamed: _Streamed) -> None:
        streamed.shown = True
        started = MessageStart(message_id=streamed.message_id, called_by=self._owner(streamed))
        await self.turn.append_async(started)

    def _show(self, streamed: _Streamed, text: str) -> None:
        self.turn.stream(streamed.message_id, "text", text, self._owner(streamed))
        if self._options.on_text is not None:
            self._options.on_text(text)

    def _owner(self, streamed: _Streamed) -> str:
        """The `called_by` of the reply's rows."""
        return "" if self._speaks else streamed.node_id

    # --- the end ---

    def _replied(self, streamed: _Streamed) -> tuple[Reply, list[Event]]:
        """The reply, and the rows of its end, which are one append: the message's, the node's, and the calls made."""
        calls = [msgspec.structs.replace(call, id=self.turn.tool_call_id(call.id)) for call in streamed.calls]
        reply, finish = Reply(streamed.node_id, "".join(streamed.texts), calls), streamed.finish
        owner = self._owner(streamed)
        usage = self.turn.meter.ended(self.model.name, finish.usage)
        said = MessageEnd(message_id=streamed.message_id, finish_reason=finish.reason, called_by=owner)
        ended = CallEnded(node_id=reply.node_id, status="completed", result=reply.recorded, usage=usage)
        made = [
            ToolCall(
                tool_call_id=call.id, name=call.name, arguments=_arguments(call.arguments), called_by=owner
            )
            for call in reply.calls
        ]
        return reply, [*([said] if streamed.shown else []), ended, *made]


class _Streamed:
    """One attempt's reply, as far as it has come."""

    def __init__(self, node_id: str) -> None:
        self.node_id, self.message_id = node_id, new_id("msg")
        self.texts: list[str] = []
        self.calls: list[ToolCallChunk] = []
        self.finish = Finish("stop")
        self.shown = False
        """Whether its message is in the journal."""


def recorded_reply(node: Node, result: Any) -> Reply:
    """The reply of a completed model node, whose whole result that is."""
    if isinstance(result, str):
        return Reply(node.id, result)
    return Reply(node.id, result["text"], msgspec.convert(result["tool_calls"], list[ToolCallChunk]))


def _wire(call: ToolCallChunk) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(text: str) -> Any:
    """A JSON object that can be read in one way only, as its value; anything else, as the model wrote it."""
    try:
        value = read_json(text)
    except NotJson:
        return text
    return value if type(value) is dict else text
