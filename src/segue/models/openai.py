"""OpenAI, and every server that speaks its chat completions API (`OPENAI_BASE_URL`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import httpx2
import msgspec
import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk
from openai.types.completion_usage import CompletionUsage

from segue.errors import BadModelRequest, ContextTooLong, ModelError, ModelUnavailable
from segue.ids import new_id
from segue.models.failures import TOO_LONG, failure_of, timed
from segue.models.protocol import (
    Chunk,
    Finish,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    Usage,
)
from segue.models.schemas import strict_schema

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
"""Seconds between two pieces of a stream; a request's own timeout bounds the whole."""


class OpenAIModel:
    """One model behind the chat completions API. Connections are opened when first needed and shared."""

    dialect = "openai"

    def __init__(self, model: str, key: str, base_url: str | None = None) -> None:
        self.name = f"openai:{model}"
        self._model, self._own = model, base_url is None
        timeout = httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        self._client = AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Chunks as they come. See `segue.models.protocol.Model`."""
        reply = _Reply(self._model)
        async with aclosing(cast(Any, timed(self._events(request), request.timeout))) as events:
            async for event in events:
                for chunk in reply.take(event):
                    yield chunk
        for chunk in reply.end():
            yield chunk

    async def aclose(self) -> None:
        await self._client.close()

    async def _events(self, request: ModelRequest) -> AsyncIterator[ChatCompletionChunk]:
        try:
            async with await self._client.chat.completions.create(**self._body(request)) as stream:
                async for event in stream:
                    yield event
        except (openai.OpenAIError, httpx2.HTTPError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise _failure(error) from error

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        # Other servers know only the older name of the limit, OpenAI's newer models only the newer one.
        limit = "max_completion_tokens" if self._own else "max_tokens"
        optional: dict[str, Any] = {
            "tools": request.tools or None,
            "response_format": None if request.schema is None else _response_format(request.schema),
            limit: request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "stop": request.stop or None,
        }
        body = {"model": self._model, "messages": request.messages, "stream": True}
        body["stream_options"] = {"include_usage": True}
        return body | {name: value for name, value in optional.items() if value is not None}


class _Call(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""


class _Reply:
    """Puts one reply together: text goes through, tool calls are assembled until the end."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._finish = ""
        self._usage: Usage | None = None

    def take(self, event: ChatCompletionChunk) -> list[Chunk]:
        self._model = event.model or self._model
        if event.usage is not None:
            self._usage = _usage(event.usage)
        chunks: list[Chunk] = []
        for choice in event.choices:
            self._finish = choice.finish_reason or self._finish
            chunks += self._delta(choice.delta)
        return chunks

    def end(self) -> list[Chunk]:
        if not self._finish:
            raise ModelUnavailable("the stream ended before the reply was finished")
        chunks: list[Chunk] = [
            ToolCallChunk(call.id or new_id("call"), call.name, call.arguments) for call in self._calls
        ]
        return [*chunks, Finish(self._finish, self._usage, self._model)]

    def _delta(self, delta: Any) -> list[Chunk]:
        chunks: list[Chunk] = []
        # Not part of the official API: servers name it in one of two ways, some in both.
        reasoning = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if isinstance(reasoning, str):
            chunks.append(ReasoningChunk(reasoning))
        if delta.content or delta.refusal:
            chunks.append(TextChunk(delta.content or delta.refusal))
        for fragment in delta.tool_calls or []:
            self._fragment(fragment)
        return chunks

    def _fragment(self, fragment: Any) -> None:
        place = fragment.index if fragment.index is not None else max(self._places, default=0)
        call = self._places.get(place)
        # Some servers number every call 0: another id at the same place is another call.
        if call is None or (fragment.id and call.id and fragment.id != call.id):
            call = self._places[place] = _Call()
            self._calls.append(call)
        call.id = call.id or fragment.id or ""
        if fragment.function is not None:
            call.name = call.name or fragment.function.name or ""
            call.arguments += fragment.function.arguments or ""


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    strict = strict_schema(schema)
    named = {"name": "reply", "schema": schema if strict is None else strict, "strict": strict is not None}
    return {"type": "json_schema", "json_schema": named}


def _usage(usage: CompletionUsage) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(prompt and prompt.cached_tokens) or 0,
        reasoning_tokens=(completion and completion.reasoning_tokens) or 0,
    )


def _failure(error: Exception) -> ModelError:
    if isinstance(error, openai.APIStatusError):
        code = str(error.code or error.type or "")
        return failure_of(error.status_code, error.message, code, error.response.headers)
    if isinstance(error, openai.APITimeoutError):
        return ModelUnavailable("the server did not answer in time")
    if isinstance(error, openai.APIConnectionError | httpx2.HTTPError):
        cause = error.__cause__ or error
        return ModelUnavailable(f"no connection, or it broke: {cause or type(cause).__name__}")
    if isinstance(error, openai.APIError):
        return _failure_in_stream(error)
    return ModelUnavailable(f"the server sent something that is no chat completion: {error}")


def _failure_in_stream(error: openai.APIError) -> ModelError:
    """The answer began well, and an error came as one of its events, without a status."""
    if error.code == "context_length_exceeded" or TOO_LONG.search(error.message):
        return ContextTooLong(error.message)
    if error.type == "invalid_request_error":
        return BadModelRequest(error.message)
    code = str(error.code or "")
    status = int(code) if code.isdigit() else 429 if "rate_limit" in code else 500
    return failure_of(status, error.message, code)
