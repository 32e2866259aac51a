"""One `exec`: model calls with retries and a deadline, each recorded as a node before it is made and when it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from segue.errors import ModelError, ModelTimeout
from segue.events.facts import CallEnded, CallStarted, MessageEnd, MessageStart
from segue.events.json_values import to_json
from segue.fold.provider import provider_messages
from segue.ids import new_id
from segue.models.protocol import Finish, Model, ModelRequest, ReasoningChunk, TextChunk
from segue.session.prompt import Message, Prompt, render
from segue.session.reply import Wanted
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


class ModelCall:
    """Sends requests of one `exec`. A second one (asking again) continues where the first left off."""

    def __init__(
        self, model: Model, writer: SessionNodeWriter, caller: str, wanted: Wanted, options: Options
    ) -> None:
        self.model, self.turn, self.caller = model, writer.turn, caller
        self._store = writer.turn.journal.store
        self._wanted, self._options = wanted, options
        self._deadline = None if options.timeout is None else time.monotonic() + options.timeout
        self._bare: list[Message] = []
        self._history = 0 if caller else writer.turn.history_length()

    async def send(self, content: Any) -> str:
        """Ask, and return the reply's text. Raises what `Runtime.exec` raises."""
        self.turn.check()
        prompt = await asyncio.to_thread(self._prompt, content)
        request = self._request(prompt)
        node_id = new_id("node")
        digest = await asyncio.to_thread(
            record_sent, self._store, self.turn.session_id, prompt, request, self.model.name
        )
        await self.turn.append_async(self._started(node_id, content, digest))
        try:
            reply, finish = await self._with_retries(node_id, request)
        except BaseException as error:
            await self._failed(node_id, error)
            raise
        usage = None if finish.usage is None else msgspec.to_builtins(finish.usage)
        await self.turn.append_async(
            CallEnded(node_id=node_id, status="completed", result=reply, usage=usage)
        )
        self._bare += [{"role": "user", "content": content}, {"role": "assistant", "content": reply}]
        return reply

    def _prompt(self, content: Any) -> Prompt:
        """The rendered prompt. Outside any agentic call, what this `exec` asked before goes before the request."""
        request = [{"role": "user", "content": content}]
        if self.caller:
            return render(self.turn.journal, self.turn.frame(self.caller), request)
        before = render(self.turn.journal, None, []).history[: self._history]
        return Prompt(system="", history=[*before, *self._bare], request=request)

    def _request(self, prompt: Prompt) -> ModelRequest:
        options = self._options
        return ModelRequest(
            messages=provider_messages(prompt.messages, self.model.dialect),
            schema=self._wanted.schema,
            choices=self._wanted.choices,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            stop=list(options.stop),
        )

    def _started(self, node_id: str, content: Any, digest: str) -> CallStarted:
        return CallStarted(
            node_id=node_id,
            kind="model",
            name=self.model.name,
            called_by=self.caller,
            predecessor=self.turn.follow(self.caller, node_id),
            arguments=to_json({"content": content}),
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

    async def _with_retries(self, node_id: str, request: ModelRequest) -> tuple[str, Finish]:
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

    async def _attempt(self, node_id: str, request: ModelRequest) -> tuple[str, Finish]:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        try:
            async with asyncio.timeout(left):
                return await self._stream(node_id, msgspec.structs.replace(request, timeout=left))
        except TimeoutError as error:
            raise ModelTimeout(f"no reply within {self._options.timeout:g} s") from error

    async def _stream(self, node_id: str, request: ModelRequest) -> tuple[str, Finish]:
        """Take the reply as it streams; each piece is journaled as part of the model call's own message."""
        message_id, texts, finish = new_id("msg"), [], Finish("stop")
        await self.turn.append_async(MessageStart(message_id=message_id, called_by=node_id))
        async with aclosing(self.model.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text):
                        texts.append(text)
                        self._show(message_id, text, node_id)
                    case ReasoningChunk(text):
                        self.turn.stream(message_id, "reasoning", text, node_id)
                    case Finish():
                        finish = chunk
        ended = MessageEnd(message_id=message_id, finish_reason=finish.reason, called_by=node_id)
        self.turn.submit(ended)
        return "".join(texts), finish

    def _show(self, message_id: str, text: str, node_id: str) -> None:
        self.turn.stream(message_id, "text", text, node_id)
        if self._options.on_text is not None:
            self._options.on_text(text)
