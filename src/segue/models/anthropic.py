"""Anthropic's Messages API (`ANTHROPIC_BASE_URL` for another address)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import anthropic
import httpx2
import msgspec
from anthropic import AsyncAnthropic
from anthropic.types import RawMessageStreamEvent

from segue.errors import ModelError, ModelUnavailable
from segue.models.anthropic_messages import split_system, tool_of
from segue.models.failures import failure_of, timed
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage
from segue.models.schemas import strict_schema

MAX_TOKENS = 8192
"""Of a reply, when the request sets no limit: the API requires one."""
CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 600.0
"""Seconds between two pieces of a stream; a request's own timeout bounds the whole."""

REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Errors inside a stream come with their type only: the answer's own status was 200."""


class AnthropicModel:
    """One Claude model. Connections are opened when first needed and shared.

    A schema that closes all its objects is enforced by the API, others are only asked for; `seed` does not
    exist.
    """

    dialect = "anthropic"

    def __init__(self, model: str, key: str, base_url: str | None = None) -> None:
        self.name = f"anthropic:{model}"
        self._model = model
        timeout = httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT)
        self._client = AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Chunks as they come. See `segue.models.protocol.Model`."""
        reply = _Reply(self._model)
        async with aclosing(cast(Any, timed(self._events(request), request.timeout))) as events:
            async for event in events:
                for chunk in reply.take(event):
                    yield chunk
        yield reply.end()

    async def aclose(self) -> None:
        await self._client.close()

    async def _events(self, request: ModelRequest) -> AsyncIterator[RawMessageStreamEvent]:
        try:
            async with await self._client.messages.create(**_body(self._model, request)) as stream:
                async for event in stream:
                    yield event
        except (
            anthropic.AnthropicError,
            httpx2.HTTPError,
            json.JSONDecodeError,
            UnicodeDecodeError,
        ) as error:
            raise _failure(error) from error


class _Call(msgspec.Struct):
    id: str
    name: str
    arguments: str = ""


class _Reply:
    """Puts one reply together: text goes through, each tool call when its block is complete."""

    def __init__(self, model: str) -> None:
        self._model, self._finish, self._ended = model, "", False
        self._calls: dict[int, _Call] = {}
        self._usage: dict[str, Any] = {}

    def take(self, event: RawMessageStreamEvent) -> list[Chunk]:
        match event.type:
            case "message_start":
                self._model = event.message.model
                self._count(event.message.usage)
            case "content_block_start" if event.content_block.type == "tool_use":
                self._calls[event.index] = _Call(event.content_block.id, event.content_block.name)
            case "content_block_delta":
                return self._delta(event.index, event.delta)
            case "content_block_stop" if event.index in self._calls:
                call = self._calls.pop(event.index)
                return [ToolCallChunk(call.id, call.name, call.arguments or "{}")]
            case "message_delta":
                self._finish = event.delta.stop_reason or self._finish
                self._count(event.usage)
            case "message_stop":
                self._ended = True
        return []

    def end(self) -> Finish:
        if not self._ended or not self._finish:
            raise ModelUnavailable("the stream ended before the reply was finished")
        return Finish(REASONS.get(self._finish, self._finish), _usage(self._usage), self._model)

    def _delta(self, index: int, delta: Any) -> list[Chunk]:
        if delta.type == "text_delta":
            return [TextChunk(delta.text)]
        if delta.type == "thinking_delta":
            return [ReasoningChunk(delta.thinking)]
        if delta.type == "input_json_delta" and index in self._calls:
            self._calls[index].arguments += delta.partial_json
        return []

    def _count(self, usage: Any) -> None:
        """Later counts are totals that replace earlier ones, as far as they are given."""
        self._usage |= {name: value for name, value in usage.model_dump().items() if value is not None}


def _body(model: str, request: ModelRequest) -> dict[str, Any]:
    system, messages = split_system(request.messages)
    strict = None if request.schema is None else strict_schema(request.schema)
    optional = {
        "system": system or None,
        "tools": [tool_of(tool) for tool in request.tools] or None,
        "stop_sequences": request.stop or None,
        "output_config": None if strict is None else {"format": {"type": "json_schema", "schema": strict}},
        # The client has no parameter for it any more; models that still take one get it, others say what is wrong.
        "extra_body": None if request.temperature is None else {"temperature": request.temperature},
    }
    limit = MAX_TOKENS if request.max_tokens is None else request.max_tokens
    body = {"model": model, "messages": messages, "max_tokens": limit, "stream": True}
    return body | {name: value for name, value in optional.items() if value is not None}


def _usage(counts: dict[str, Any]) -> Usage:
    """`input_tokens` counts the whole prompt, as with other providers: here the API leaves out what was
    cached."""
    read, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
    return Usage(
        input_tokens=counts.get("input_tokens", 0) + read + written,
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=counts.get("output_tokens_details", {}).get("thinking_tokens", 0),
    )


def _failure(error: Exception) -> ModelError:
    if isinstance(error, anthropic.APIStatusError):
        status = error.status_code if error.status_code >= 400 else STATUS.get(str(error.type), 500)
        return failure_of(status, error.api_message or error.message, str(error.type), error.response.headers)
    if isinstance(error, anthropic.APITimeoutError):
        return ModelUnavailable("the server did not answer in time")
    if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError):
        return ModelUnavailable(f"no connection, or it broke: {error.__cause__ or error}")
    return ModelUnavailable(f"the server sent something that is no message: {error}")
