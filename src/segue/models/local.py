"""A model in this process: no network, no key. Any GGUF file of a chat model; by default a very small one.

SmolLM2-135M shows that everything is real; for good answers use a larger file or a provider.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from segue.errors import BadModelRequest, ContextTooLong, ModelError, ModelUnavailable
from segue.ids import new_id
from segue.models.constraints import constraint_of, tool_instructions
from segue.models.engine import Event, Job, engine_of
from segue.models.failures import failure_of, timed
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage
from segue.models.weights import weights_name

SEED = 0
TEMPERATURE = 0.2
MAX_TOKENS = 1024
"""Of a reply, when the request sets no limit: a small model does not always find an end."""


class LocalModel:
    """The weights in one GGUF file. The same request gives the same text on the same machine.

    `choices` and `schema` are enforced while sampling. Weights are loaded at the first request and shared by
    all models of this process on the same file; they stay until it ends.
    """

    dialect = "local"

    def __init__(self, path: Path, name: str = "") -> None:
        self.name = f"local:{name or weights_name(path)}"
        self._path = path

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Chunks as they come. See `segue.models.protocol.Model`."""
        reply = _Reply(request, self.name)
        async with aclosing(cast(Any, timed(self._events(request), request.timeout))) as events:
            async for event in events:
                for chunk in reply.take(event):
                    yield chunk
        for chunk in reply.end():
            yield chunk

    async def aclose(self) -> None:
        """Nothing: loading takes a second and other turns use the same weights."""

    async def _events(self, request: ModelRequest) -> AsyncIterator[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def deliver(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        job = Job(_body(request), deliver)
        engine_of(self._path).submit(job)
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, ModelError):
                    raise event
                yield event
        finally:
            job.stop.set()


class _Reply:
    """Puts one reply together. With tools it is one JSON text, held back until it is whole."""

    def __init__(self, request: ModelRequest, model: str) -> None:
        self._tools, self._model = bool(request.tools), model
        self._text: list[str] = []
        self._finish = ""
        self._usage: Usage | None = None

    def take(self, event: dict[str, Any]) -> list[Chunk]:
        if "error" in event:
            raise _failure(event["error"])
        if event.get("usage"):
            self._usage = _usage(event["usage"])
        chunks: list[Chunk] = []
        for choice in event.get("choices", []):
            self._finish = choice.get("finish_reason") or self._finish
            chunks += self._delta(choice["delta"])
        return chunks

    def end(self) -> list[Chunk]:
        if not self._finish:
            raise ModelUnavailable("the local model stopped before its reply was finished")
        chunks = [_call_or_text("".join(self._text))] if self._tools else []
        called = any(isinstance(chunk, ToolCallChunk) for chunk in chunks)
        return [*chunks, Finish("tool_calls" if called else self._finish, self._usage, self._model)]

    def _delta(self, delta: dict[str, Any]) -> list[Chunk]:
        text, reasoning = delta.get("content"), delta.get("reasoning_content")
        chunks: list[Chunk] = [ReasoningChunk(reasoning)] if reasoning else []
        if text and self._tools:
            self._text.append(text)
        elif text:
            chunks.append(TextChunk(text))
        return chunks


def _body(request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": local_messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "temperature": TEMPERATURE if request.temperature is None else request.temperature,
        "seed": SEED if request.seed is None else request.seed,
        "stop": request.stop,
        # A cached beginning is computed in other batches, which changes the last bits, and then the text.
        "cache_prompt": False,
        "return_progress": True,  # so that a job can be stopped while it reads its prompt
    }
    return body | constraint_of(request)


def local_messages(request: ModelRequest) -> list[dict[str, str]]:
    """Roles and texts only, as every chat template takes them: calls and their results become texts.

    Raises `BadModelRequest` for content that is not text.
    """
    messages = [_message(message) for message in request.messages]
    if not request.tools:
        return messages
    instructions = tool_instructions(request.tools)
    if messages and messages[0]["role"] == "system":
        first = {"role": "system", "content": f"{messages[0]['content']}\n\n{instructions}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": instructions}, *messages]


def _message(message: dict[str, Any]) -> dict[str, str]:
    text = _text(message.get("content"))
    if message["role"] == "tool":
        return {"role": "user", "content": f"The tool answered: {text}"}
    calls = [_call_text(call["function"]) for call in message.get("tool_calls") or []]
    return {"role": message["role"], "content": "\n".join([*([text] if text else []), *calls])}


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    other = next((part for part in parts if part.get("type") != "text"), None)
    if other is not None:
        raise BadModelRequest(f"the local model takes text only, not {other.get('type')!r} parts")
    return "\n".join(part["text"] for part in parts)


def _call_text(function: dict[str, Any]) -> str:
    return f'{{"tool": {json.dumps(function["name"])}, "arguments": {function["arguments"] or "{}"}}}'


def _call_or_text(text: str) -> Chunk:
    try:
        value = json.loads(text)
    except ValueError:  # cut off by the limit of tokens
        return TextChunk(text)
    if "tool" in value:
        return ToolCallChunk(
            new_id("call"), value["tool"], json.dumps(value["arguments"], ensure_ascii=False)
        )
    reply = value["reply"]
    return TextChunk(reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False))


def _usage(usage: dict[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Usage(
        input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"], cached_tokens=cached
    )


def _failure(error: dict[str, Any]) -> ModelError:
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLong(
            f"the prompt has {error['n_prompt_tokens']} tokens, the local model takes {error['n_ctx']} with its reply:"
            " render less of the history, or use a provider's model"
        )
    return failure_of(int(error.get("code", 500)), str(error.get("message", error)))
