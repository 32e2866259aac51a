"""The Anthropic adapter against a small real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
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
from segue.models.anthropic import AnthropicModel
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage

Events = list[dict[str, Any]]


class Answer(msgspec.Struct):
    """What the server says to every request."""

    events: Events = []
    status: int = 200
    headers: dict[str, str] = {}
    error: dict[str, Any] = {}
    split_bytes: int = 0
    endless: bool = False
    """Goes on saying `ping` until the client is gone."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.disconnected = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.disconnected.set()


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0: the end of the connection is the end of the stream, so no stream outlives its test."""

    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        answer = self.server.answer
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(answer.status)
        kind = "application/json" if answer.error else "text/event-stream"
        for name, value in ({"Content-Type": kind} | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self._send(json.dumps({"type": "error", "error": answer.error}) if answer.error else "", 0)
        for event in answer.events:
            data = json.dumps(event, ensure_ascii=False)
            self._send(f"event: {event['type']}\ndata: {data}\n\n", answer.split_bytes)
        while answer.endless:
            self._send('event: ping\ndata: {"type": "ping"}\n\n' * 1000, 0)

    def _send(self, text: str, size: int) -> None:
        data = text.encode()
        for start in range(0, len(data), size or len(data) or 1):
            self.wfile.write(data[start : start + (size or len(data))])
            self.wfile.flush()


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@asynccontextmanager
async def model_at(server: Server) -> AsyncIterator[AnthropicModel]:
    model = AnthropicModel("claude-test", "secret", f"http://127.0.0.1:{server.server_port}")
    try:
        yield model
    finally:
        await model.aclose()


async def ask(server: Server, asked: ModelRequest) -> list[Chunk]:
    async with model_at(server) as model:
        return [chunk async for chunk in model.stream(asked)]


def request(*messages: dict[str, Any], **more: Any) -> ModelRequest:
    return ModelRequest(messages=list(messages) or [{"role": "user", "content": "hi"}], **more)


def reply(*blocks: Events, stop: str = "end_turn", usage: dict[str, Any] | None = None) -> Events:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-1", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 1}}
    delta = {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}}
    return [
        {"type": "message_start", "message": message},
        *(event for block in blocks for event in block),
        delta | {"usage": usage or {"output_tokens": 7}},
        {"type": "message_stop"},
    ]


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Events:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(*pieces: str, index: int = 0) -> Events:
    return block(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": one} for one in pieces)
    )


async def test_text_streams_and_ends_with_usage() -> None:
    with serving(Answer(events=reply(text("hel", "lo")))) as server:
        assert await ask(server, request()) == [
            TextChunk("hel"),
            TextChunk("lo"),
            Finish("stop", Usage(input_tokens=3, output_tokens=7), "claude-test-1"),
        ]


async def test_thinking_is_reasoning() -> None:
    deltas = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s"}]
    thinking = block(0, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)
    with serving(Answer(events=reply(thinking, text("ok", index=1)))) as server:
        assert (await ask(server, request()))[:2] == [ReasoningChunk("hm"), TextChunk("ok")]


async def test_calls_are_assembled_from_their_fragments() -> None:
    pieces = [{"type": "input_json_delta", "partial_json": part} for part in ("", '{"q": ', '"x"}')]
    first = block(0, {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}, *pieces)
    second = block(1, {"type": "tool_use", "id": "toolu_2", "name": "stop", "input": {}})
    with serving(Answer(events=reply(first, second, stop="tool_use"))) as server:
        assert await ask(server, request()) == [
            ToolCallChunk("toolu_1", "search", '{"q": "x"}'),
            ToolCallChunk("toolu_2", "stop", "{}"),
            Finish("tool_calls", Usage(input_tokens=3, output_tokens=7), "claude-test-1"),
        ]


async def test_cached_tokens_count_as_input_too() -> None:
    usage = {"output_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}
    usage["output_tokens_details"] = {"thinking_tokens": 4}  # type: ignore[assignment]
    with serving(Answer(events=reply(text("ok"), usage=usage))) as server:
        finish = (await ask(server, request()))[-1]
    assert finish == Finish("stop", Usage(113, 7, 100, 10, 4), "claude-test-1")


async def test_messages_are_converted_and_merged_to_alternate() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
    messages: Events = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "find x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ]
    with serving(Answer(events=reply(text("ok")))) as server:
        await ask(server, request(*messages))
    assert server.bodies[0]["system"] == "Be brief."
    assert server.bodies[0]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "find x"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "found"},
                {"type": "text", "text": "and?"},
            ],
        },
    ]


async def test_the_request_carries_what_was_asked_and_the_key() -> None:
    parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters}}
    with serving(Answer(events=reply(text("ok")))) as server:
        await ask(server, request(tools=[tool], max_tokens=5, temperature=0.5, stop=["END"]))
    assert server.headers[0]["authorization"] == "Bearer secret"
    assert server.bodies[0] == {
        "model": "claude-test",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_tokens": 5,
        "stream": True,
        "tools": [{"name": "f", "description": "d", "input_schema": parameters}],
        "stop_sequences": ["END"],
        "temperature": 0.5,
    }


async def test_a_schema_is_sent_as_the_format_of_the_output() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with serving(Answer(events=reply(text('{"n": 1}')))) as server:
        await ask(server, request(schema=schema))
    closed = {**schema, "additionalProperties": False}
    assert server.bodies[0]["output_config"] == {"format": {"type": "json_schema", "schema": closed}}


@pytest.mark.parametrize("size", [1, 3])
async def test_characters_of_several_bytes_survive_any_cut_of_the_stream(size: int) -> None:
    with serving(Answer(events=reply(text("naïve 漢字 🎼")), split_bytes=size)) as server:
        assert (await ask(server, request()))[0] == TextChunk("naïve 漢字 🎼")


FAILURES: list[tuple[int, str, dict[str, str], type[ModelError], float | None]] = [
    (401, "authentication_error", {}, ModelAuthError, None),
    (403, "permission_error", {}, ModelAuthError, None),
    (429, "rate_limit_error", {"Retry-After": "12"}, ModelRateLimited, 12.0),
    (400, "invalid_request_error", {}, BadModelRequest, None),
    (404, "not_found_error", {}, BadModelRequest, None),
    (500, "api_error", {}, ModelUnavailable, None),
    (529, "overloaded_error", {}, ModelUnavailable, None),
]


@pytest.mark.parametrize(("status", "kind", "headers", "error", "pause"), FAILURES)
async def test_an_error_answer_is_raised_typed_with_its_pause(
    status: int, kind: str, headers: dict[str, str], error: type[ModelError], pause: float | None
) -> None:
    answer = Answer(status=status, headers=headers, error={"type": kind, "message": "words of the provider"})
    with serving(answer) as server, pytest.raises(ModelError, match="words of the provider") as caught:
        await ask(server, request())
    assert (type(caught.value), caught.value.retry_after) == (error, pause)


async def test_a_prompt_that_is_too_long_has_its_own_error() -> None:
    message = "prompt is too long: 250000 tokens > 200000 maximum"
    answer = Answer(status=400, error={"type": "invalid_request_error", "message": message})
    with serving(answer) as server, pytest.raises(ContextTooLong, match="250000 tokens > 200000"):
        await ask(server, request())


async def test_an_error_inside_a_stream_is_typed_too() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = Answer(events=[*reply(text("half"))[:3], error])
    with serving(answer) as server, pytest.raises(ModelUnavailable, match="Overloaded"):
        await ask(server, request())


async def test_a_stream_that_breaks_off_is_unavailable() -> None:
    answer = Answer(events=reply(text("half"))[:3])
    with (
        serving(answer) as server,
        pytest.raises(ModelUnavailable, match="ended before the reply was finished"),
    ):
        await ask(server, request())


async def test_an_attempt_that_takes_too_long_times_out_and_closes_the_stream() -> None:
    with serving(Answer(events=reply(text("half"))[:3], endless=True)) as server:
        with pytest.raises(ModelTimeout):
            await ask(server, request(timeout=0.3))
        assert server.disconnected.wait(10)


async def test_closing_the_iterator_early_closes_the_stream_on_the_server() -> None:
    with serving(Answer(events=reply(text("half"))[:3], endless=True)) as server:
        async with model_at(server) as model:
            stream: Any = model.stream(request())
            await anext(stream)
            await stream.aclose()
            assert server.disconnected.wait(10)
