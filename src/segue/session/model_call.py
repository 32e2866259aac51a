"""The model calls of one `exec`, with retries and a deadline, each recorded as a node before it is made and when it
ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from segue.errors import InvalidEvent, ModelError, ModelTimeout
from segue.events.codec import decode_json
from segue.events.facts import CallEnded, CallStarted, MessageEnd, MessageStart, ToolCall
from segue.events.json_values import to_json
from segue.fold.graph import TERMINAL, Node
from segue.fold.provider import provider_messages
from segue.ids import new_id
from segue.models.protocol import Finish, Model, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk
from segue.session.prompt import Message, Prompt, render
from segue.session.reply import Wanted
from segue.session.restored import raised
from segue.session.sent import record_sent
from segue.session.turn import error_code, error_text, status_of
from segue.session.writer import SessionNodeWriter

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
    """Of the model call: the caller of its tool calls."""
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
        self._store = writer.turn.journal.store
        self._wanted, self._options, self._tools = wanted, options, list(tools)
        self._deadline = None if options.timeout is None else time.monotonic() + options.timeout
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
        known = self.turn.replay.take(self.caller, "model", self.model.name, arguments)
        if known is not None and self._first_seq is None:
            self._first_seq = known.seq
        reply = None if known is None else self._from_record(known)
        if reply is None:
            reply = await self._from_model(known, messages, arguments)
        self._said += [*messages, reply.message]
        self._asked = self._asked or reply.node_id
        return reply

    def _from_record(self, known: Node) -> Reply | None:
        """The recorded reply. Raises the recorded failure where the program had gone on after it."""
        if known.status == "completed":
            return _recorded_reply(known)
        if known.status == "failed" and self.turn.replay.went_on(known):
            raise raised(known.error or {})
        return None

    async def _from_model(
        self, known: Node | None, messages: list[Message], arguments: dict[str, Any]
    ) -> Reply:
        self.turn.check(self.caller)
        prompt = await asyncio.to_thread(self._prompt, messages)
        request = self._request(prompt)
        known = None if known is None or known.status in TERMINAL else known
        node_id = new_id("node") if known is None else known.id
        digest = await asyncio.to_thread(
            record_sent, self._store, self.turn.session_id, prompt, request, self.model.name
        )
        attempt = 1 if known is None else known.attempt + 1
        await self.turn.append_async(self._started(node_id, arguments, digest, attempt))
        try:
            reply, finish = await self._with_retries(node_id, request)
        except BaseException as error:
            await self._failed(node_id, error)
            raise
        await self._completed(reply, finish)
        return reply

    async def _completed(self, reply: Reply, finish: Finish) -> None:
        """The end of the node, and the calls that the reply makes, in one append."""
        usage = None if finish.usage is None else msgspec.to_builtins(finish.usage)
        ended = CallEnded(node_id=reply.node_id, status="completed", result=reply.recorded, usage=usage)
        calls = [
            ToolCall(
                tool_call_id=call.id,
                name=call.name,
                arguments=_arguments(call.arguments),
                called_by=reply.node_id,
            )
            for call in reply.calls
        ]
        await self.turn.append_async(ended, *calls)

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

    def _request(self, prompt: Prompt) -> ModelRequest:
        options = self._options
        return ModelRequest(
            messages=provider_messages(prompt.messages, self.model.dialect),
            tools=self._tools,
            schema=self._wanted.schema,
            choices=self._wanted.choices,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            stop=list(options.stop),
        )

    def _started(self, node_id: str, arguments: dict[str, Any], digest: str, attempt: int) -> CallStarted:
        return CallStarted(
            node_id=node_id,
            kind="model",
            name=self.model.name,
            called_by=self.caller,
            predecessor=self.turn.follow(self.caller, node_id),
            arguments=arguments,
            attempt=attempt,
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

    async def _with_retries(self, node_id: str, request: ModelRequest) -> tuple[Reply, Finish]:
        failures = 0
        while True:
            try:
                return await self._attempt(node_id, request)
            except ModelError as error:
                failures += 1
                if not error.retryable or failures > self._options.retries:
                    raise
                await self._pause(failures, error)

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

    async def _attempt(self, node_id: str, request: ModelRequest) -> tuple[Reply, Finish]:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._stream(node_id, msgspec.structs.replace(request, timeout=left))
        except TimeoutError as error:
            raise ModelTimeout(f"no reply within {self._options.timeout:g} s") from error

    async def _stream(self, node_id: str, request: ModelRequest) -> tuple[Reply, Finish]:
        """Take the reply as it streams; each piece is journaled as part of the model call's own message."""
        message_id, finish = new_id("msg"), Finish("stop")
        texts: list[str] = []
        calls: list[ToolCallChunk] = []
        await self.turn.append_async(MessageStart(message_id=message_id, called_by=node_id))
        async with aclosing(self.model.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        texts.append(text)
                        self._show(message_id, text, node_id)
                    case ReasoningChunk(text):
                        self.turn.stream(message_id, "reasoning", text, node_id)
                    case ToolCallChunk():
                        calls.append(chunk)
                    case Finish():
                        finish = chunk
        ended = MessageEnd(message_id=message_id, finish_reason=finish.reason, called_by=node_id)
        self.turn.submit(ended)
        named = [msgspec.structs.replace(call, id=self.turn.tool_call_id(call.id)) for call in calls]
        return Reply(node_id, "".join(texts), named), finish

    def _show(self, message_id: str, text: str, node_id: str) -> None:
        self.turn.stream(message_id, "text", text, node_id)
        if self._options.on_text is not None:
            self._options.on_text(text)


def _recorded_reply(node: Node) -> Reply:
    if isinstance(node.result, str):
        return Reply(node.id, node.result)
    return Reply(
        node.id, node.result["text"], msgspec.convert(node.result["tool_calls"], list[ToolCallChunk])
    )


def _wire(call: ToolCallChunk) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(text: str) -> Any:
    """A JSON object as its value; anything else, as the model wrote it."""
    try:
        value = decode_json(text)
    except (InvalidEvent, UnicodeEncodeError):
        return text
    return value if type(value) is dict else text
