"""A real HTTP server that speaks the OpenAI chat completions API and says what it was told to.

    with FakeOpenAI(["hello", {"error": {"type": "rate_limited", "retry_after": 2}}]) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="any")

Replies have the shapes of `segue.models.replies`. From a shell: `python -m segue.testing.fake_openai FILE`.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from segue.errors import ModelError, UsageError
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage
from segue.models.replies import (
    ERRORS,
    ReplyLike,
    Script,
    ScriptedError,
    ScriptedReply,
    chunks_of,
    pieces,
    read_script,
)

STATUS = {
    "auth": (401, "invalid_request_error", "invalid_api_key"),
    "rate_limited": (429, "requests", "rate_limit_exceeded"),
    "context_too_long": (400, "invalid_request_error", "context_length_exceeded"),
    "bad_request": (400, "invalid_request_error", None),
    "unavailable": (500, "server_error", None),
    "timeout": (504, "server_error", None),
}
"""HTTP status, `type` and `code` of each scripted error."""


class Received(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]


class FakeOpenAI:
    """Serves on 127.0.0.1 on a free port (or `port`) while the `with` block runs."""

    def __init__(self, replies: Iterable[ReplyLike] | Script, *, port: int = 0) -> None:
        self.script = replies if isinstance(replies, Script) else Script(replies)
        self.requests: list[Received] = []
        """Every completion that was asked for, in order of arrival."""
        self.arrived = threading.Event()
        """Set at the first of them."""
        self.disconnected = threading.Event()
        """Set when a client has closed its connection before the reply was over."""
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> FakeOpenAI:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], fake: FakeOpenAI) -> None:
        self.fake = fake
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Clients keep connections open for more requests: end those, so that their threads end."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure of ours."""
        self.fake.disconnected.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what was asked is in `FakeOpenAI.requests`."""

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})
        else:
            self._json(404, {"error": {"message": f"no {self.path} here", "type": "invalid_request_error"}})

    def do_POST(self) -> None:
        body = self._read()
        if not self.path.endswith("/chat/completions"):
            self._json(404, {"error": {"message": f"no {self.path} here", "type": "invalid_request_error"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.fake.requests.append(Received(self.path, headers, body))
        self.server.fake.arrived.set()
        try:
            reply = self.server.fake.script.take(_request(body))
        except ModelError as error:
            self._error(_scripted(error), ScriptedReply())
            return
        except UsageError as error:
            self._error(ScriptedError("bad_request", str(error)), ScriptedReply())
            return
        self._answer(reply, body)

    def _answer(self, reply: ScriptedReply, body: dict[str, Any]) -> None:
        self.server.fake.closing.wait(reply.delay)
        model = str(body.get("model", "fake"))
        chunks = chunks_of(reply, model)
        if reply.error is not None and not chunks:
            self._error(reply.error, reply)
        elif body.get("stream"):
            self._stream(reply, chunks, body, model)
        else:
            self._json(200, completion(chunks, model), reply.headers)

    def _stream(self, reply: ScriptedReply, chunks: list[Chunk], body: dict[str, Any], model: str) -> None:
        headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **reply.headers}
        self._start(200, headers)
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        for position, event in enumerate(events(chunks, model, with_usage)):
            if position and reply.pace:
                self.server.fake.closing.wait(reply.pace)
            self._send(_sse(event), reply.split_bytes)
        if reply.error is None:
            self._send(b"data: [DONE]\n\n", 0)
            self.wfile.write(b"0\r\n\r\n")
        elif reply.error.type == "unavailable":
            self.close_connection = True  # without the last chunk: the stream breaks off
        else:
            self._send(_sse(error_body(reply.error)), 0)
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, data: bytes, size: int) -> None:
        """As one HTTP chunk, or as many of `size` bytes each, wherever they cut."""
        for start in range(0, len(data), size or len(data)):
            piece = data[start : start + (size or len(data))]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def _error(self, error: ScriptedError, reply: ScriptedReply) -> None:
        pause = {} if error.retry_after is None else {"Retry-After": f"{error.retry_after:g}"}
        self._json(reply.status or STATUS[error.type][0], error_body(error), {**pause, **reply.headers})

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        length = str(len(data))
        self._start(status, {"Content-Type": "application/json", "Content-Length": length, **(headers or {})})
        self.wfile.write(data)

    def _start(self, status: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in ({"Date": self.date_time_string()} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _read(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(
            self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"
        )
        return body


def events(chunks: Iterable[Chunk], model: str, with_usage: bool) -> Iterator[dict[str, Any]]:
    """The `chat.completion.chunk`s of a stream. A call comes in several: its name first, its arguments in
    pieces."""
    calls = 0
    yield _event(model, {"role": "assistant", "content": ""})
    for chunk in chunks:
        match chunk:
            case TextChunk(text):
                yield _event(model, {"content": text})
            case ReasoningChunk(text):
                yield _event(model, {"reasoning_content": text})
            case ToolCallChunk():
                yield from (_event(model, {"tool_calls": [part]}) for part in _call_parts(chunk, calls))
                calls += 1
            case Finish():
                yield _event(model, {}, chunk.reason)
                if with_usage and chunk.usage is not None:
                    yield {**_event(model, {}), "choices": [], "usage": _usage(chunk.usage)}


def completion(chunks: list[Chunk], model: str) -> dict[str, Any]:
    """The same reply in one piece."""
    finish = chunks[-1] if chunks and isinstance(chunks[-1], Finish) else Finish("stop")
    calls = [_call(chunk) for chunk in chunks if isinstance(chunk, ToolCallChunk)]
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    choice = {"index": 0, "message": message, "finish_reason": finish.reason}
    made = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
    }
    return made if finish.usage is None else made | {"usage": _usage(finish.usage)}


def error_body(error: ScriptedError) -> dict[str, Any]:
    _, kind, code = STATUS[error.type]
    message = error.message or f"scripted error: {error.type}"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _request(body: dict[str, Any]) -> ModelRequest:
    """What a script sees of the HTTP request."""
    form = (body.get("response_format") or {}).get("json_schema") or {}
    return ModelRequest(
        messages=body.get("messages", []),
        tools=body.get("tools") or [],
        schema=form.get("schema"),
        max_tokens=body.get("max_tokens") or body.get("max_completion_tokens"),
        temperature=body.get("temperature"),
        seed=body.get("seed"),
    )


def _scripted(error: ModelError) -> ScriptedError:
    kind = next((name for name, made in ERRORS.items() if isinstance(error, made)), "unavailable")
    return ScriptedError(kind, str(error), error.retry_after)


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def _event(model: str, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 0, "model": model}
    return {**head, "choices": [choice]}


def _call_parts(call: ToolCallChunk, index: int) -> Iterator[dict[str, Any]]:
    function = {"name": call.name, "arguments": ""}
    yield {"index": index, "id": call.id, "type": "function", "function": function}
    for piece in pieces(call.arguments, 3):
        yield {"index": index, "function": {"arguments": piece}}


def _call(call: ToolCallChunk) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def main() -> None:
    """Serve a file of replies until Ctrl-C; the address goes to stdout."""
    parser = argparse.ArgumentParser(prog="python -m segue.testing.fake_openai", description=main.__doc__)
    parser.add_argument("file", type=Path, help="a JSON file of replies, as for --model scripted:FILE")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell's background job ignores it
    with FakeOpenAI(read_script(given.file), port=given.port) as server:
        print(server.base_url, flush=True)
        with suppress(KeyboardInterrupt):
            server.closing.wait()


if __name__ == "__main__":
    main()
