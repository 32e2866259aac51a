"""Reaching a language model: one provider behind one asynchronous streaming protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    """Provider-acceptable chat messages: the output of `segue.fold.provider_messages`."""
    tools: list[dict[str, Any]] = []
    """OpenAI-shaped: `{type: function, function: {name, description, parameters}}`."""
    schema: dict[str, Any] | None = None
    """JSON schema that the reply's text must satisfy (an object at the top), where the provider can enforce
    it."""
    choices: list[str] = []
    """The reply should be one of these texts; a model that can constrain its output does, others are only
    asked."""
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: list[str] = []
    timeout: float | None = None
    """Seconds for this one attempt."""


class TextChunk(msgspec.Struct, frozen=True):
    text: str


class ReasoningChunk(msgspec.Struct, frozen=True):
    text: str


class ToolCallChunk(msgspec.Struct, frozen=True):
    """One whole call: models assemble the fragments themselves."""

    id: str
    name: str
    arguments: str
    """As the model wrote it; not always JSON."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, those that the provider read from its cache; `cache_write_tokens` those that it put there."""
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Finish(msgspec.Struct, frozen=True):
    """Always the last chunk of a stream that ended well."""

    reason: str
    """stop, length, tool_calls, content_filter, or the provider's own word."""
    usage: Usage | None = None
    model: str = ""
    """The exact model that answered, where the provider says."""


Chunk = TextChunk | ReasoningChunk | ToolCallChunk | Finish


class Model(Protocol):
    name: str
    """`dialect:model`, as `--model` takes it: `local:SmolLM2-135M-Instruct`, `openai:gpt-5`,
    `scripted:answers.json`."""

    dialect: str
    """Which provider view of the messages it wants: openai, anthropic, local, scripted."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """One attempt: chunks as they come, ending with `Finish`. No retries here.

        Closing the iterator early really ends the provider's stream. Raises the `ModelError`s of
        `segue.errors`; a stream that breaks off without `Finish` raises `ModelUnavailable`.
        """
        ...

    async def aclose(self) -> None:
        """Free connections and weights. Idempotent."""
        ...
