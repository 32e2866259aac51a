"""The OpenAI adapter against a real HTTP server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from segue.errors import (
    BadModelRequest,
    ContextTooLong,
    ModelAuthError,
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
)
from segue.models.openai import OpenAIModel
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage
from segue.testing.fake_openai import FakeOpenAI

ASKED = [{"role": "user", "content": "one two three"}]


def request(**more: Any) -> ModelRequest:
    return ModelRequest(messages=ASKED, **more)


@asynccontextmanager
async def model_at(base_url: str) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel("gpt-test", "secret", base_url)
    try:
        yield model
    finally:
        await model.aclose()


async def ask(server: FakeOpenAI, asked: ModelRequest) -> list[Chunk]:
    async with model_at(server.base_url) as model:
        return [chunk async for chunk in model.stream(asked)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


async def test_text_streams_and_ends_with_usage() -> None:
    with FakeOpenAI(["four words of text"]) as server:
        assert await ask(server, request()) == [
            TextChunk("four "),
            TextChunk("words"),
            TextChunk(" of t"),
            TextChunk("ext"),
            Finish("stop", Usage(input_tokens=3, output_tokens=4), "gpt-test"),
        ]


async def test_the_request_carries_what_was_asked_and_the_key() -> None:
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "", "parameters": {"type": "object"}},
    }
    with FakeOpenAI(["ok"]) as server:
        await ask(server, request(tools=[tool], max_tokens=5, temperature=0.0, seed=7, stop=["END"]))
    received = server.requests[0]
    assert (received.path, received.headers["authorization"]) == ("/v1/chat/completions", "Bearer secret")
    assert received.body == {
        "model": "gpt-test",
        "messages": ASKED,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [tool],
        "max_tokens": 5,
        "temperature": 0.0,
        "seed": 7,
        "stop": ["END"],
    }


async def test_reasoning_is_kept_apart_from_text() -> None:
    with FakeOpenAI([{"reasoning": "hm", "text": "ok"}]) as server:
        chunks = await ask(server, request())
    assert chunks[:4] == [ReasoningChunk("h"), ReasoningChunk("m"), TextChunk("o"), TextChunk("k")]


async def test_calls_are_assembled_from_their_fragments() -> None:
    calls = [
        {"id": "call_a", "name": "search", "arguments": {"query": "the weather"}},
        {"id": "call_b", "name": "stop", "arguments": ""},
    ]
    with FakeOpenAI([{"tool_calls": calls}]) as server:
        assert await ask(server, request()) == [
            ToolCallChunk("call_a", "search", '{"query":"the weather"}'),
            ToolCallChunk("call_b", "stop", ""),
            Finish("tool_calls", Usage(input_tokens=3, output_tokens=4), "gpt-test"),
        ]


async def test_a_schema_that_can_be_enforced_is_sent_as_strict() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with FakeOpenAI(['{"n": 1}']) as server:
        await ask(server, request(schema=schema))
    assert server.requests[0].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": {**schema, "additionalProperties": False}, "strict": True},
    }


async def test_a_schema_with_an_optional_property_is_sent_as_it_is() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": []}
    with FakeOpenAI(["{}"]) as server:
        await ask(server, request(schema=schema))
    named = {"name": "reply", "schema": schema, "strict": False}
    assert server.requests[0].body["response_format"] == {"type": "json_schema", "json_schema": named}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_characters_of_several_bytes_survive_any_cut_of_the_stream(size: int) -> None:
    text = "naïve 漢字 🎼 e\u0301"
    with FakeOpenAI([{"text": text, "split_bytes": size}]) as server:
        assert text_of(await ask(server, request())) == text


FAILURES: list[tuple[dict[str, Any], type[ModelError], float | None]] = [
    ({"error": {"type": "auth"}}, ModelAuthError, None),
    ({"error": {"type": "auth"}, "status": 403}, ModelAuthError, None),
    ({"error": {"type": "rate_limited", "retry_after": 3}}, ModelRateLimited, 3.0),
    (
        {
            "error": {"type": "rate_limited"},
            "headers": {
                "Retry-After": "Mon, 30 Nov 2026 10:00:07 GMT",
                "Date": "Mon, 30 Nov 2026 10:00:00 GMT",
            },
        },
        ModelRateLimited,
        7.0,
    ),
    ({"error": {"type": "context_too_long"}}, ContextTooLong, None),
    ({"error": {"type": "bad_request"}}, BadModelRequest, None),
    ({"error": {"type": "bad_request"}, "status": 404}, BadModelRequest, None),
    ({"error": {"type": "bad_request"}, "status": 422}, BadModelRequest, None),
    ({"error": {"type": "unavailable"}}, ModelUnavailable, None),
    ({"error": {"type": "unavailable", "retry_after": 9}, "status": 503}, ModelUnavailable, 9.0),
]


@pytest.mark.parametrize(("reply", "kind", "pause"), FAILURES)
async def test_an_error_answer_is_raised_typed_with_its_pause(
    reply: dict[str, Any], kind: type[ModelError], pause: float | None
) -> None:
    with FakeOpenAI([reply]) as server, pytest.raises(ModelError) as caught:
        await ask(server, request())
    assert (type(caught.value), caught.value.retry_after) == (kind, pause)


async def test_a_failure_is_not_retried_here() -> None:
    with FakeOpenAI([{"error": {"type": "unavailable"}}, "second"]) as server:
        with pytest.raises(ModelUnavailable, match="scripted error: unavailable"):
            await ask(server, request())
        assert len(server.requests) == 1


async def until_failure(server: FakeOpenAI) -> tuple[str, ModelError]:
    text = ""
    async with model_at(server.base_url) as model:
        try:
            async for chunk in model.stream(request()):
                text += chunk.text if isinstance(chunk, TextChunk) else ""
        except ModelError as error:
            return text, error
    raise AssertionError(f"no error after {text!r}")


async def test_a_stream_that_breaks_off_is_unavailable_after_its_text() -> None:
    with FakeOpenAI([{"text": "half a sent", "error": {"type": "unavailable"}}]) as server:
        text, error = await until_failure(server)
    assert (text, type(error)) == ("half a sent", ModelUnavailable)


async def test_an_error_inside_a_stream_is_typed_too() -> None:
    with FakeOpenAI([{"text": "half", "error": {"type": "rate_limited"}}]) as server:
        text, error = await until_failure(server)
    assert (text, type(error)) == ("half", ModelRateLimited)


async def test_a_stream_that_ends_without_finishing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished: Callable[..., Any] = lambda *_: iter([])  # noqa: E731
    monkeypatch.setattr("segue.testing.fake_openai.events", unfinished)
    with (
        FakeOpenAI(["x"]) as server,
        pytest.raises(ModelUnavailable, match="ended before the reply was finished"),
    ):
        await ask(server, request())


async def test_no_server_is_unavailable() -> None:
    with FakeOpenAI([]) as server:
        gone = server.base_url
    async with model_at(gone) as model:
        with pytest.raises(ModelUnavailable, match="no connection"):
            await anext(model.stream(request()))


async def test_an_attempt_that_takes_too_long_times_out() -> None:
    with (
        FakeOpenAI([{"text": "late", "delay": 30}]) as server,
        pytest.raises(ModelTimeout, match=r"within 0\.2 s"),
    ):
        await ask(server, request(timeout=0.2))


async def test_closing_the_iterator_early_closes_the_stream_on_the_server() -> None:
    with FakeOpenAI([{"text": "x" * 4000, "split_bytes": 1, "pace": 0.01}]) as server:
        async with model_at(server.base_url) as model:
            stream: Any = model.stream(request())
            await anext(stream)
            await stream.aclose()
            assert server.disconnected.wait(10)


async def test_connections_serve_more_than_one_request() -> None:
    with FakeOpenAI(["first", "second"]) as server:
        async with model_at(server.base_url) as model:
            answers = [text_of([chunk async for chunk in model.stream(request())]) for _ in range(2)]
    assert answers == ["first", "second"]
