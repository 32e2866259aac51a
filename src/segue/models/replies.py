"""Scripted replies: one shape for `Scripted`, for files of `scripted:FILE`, and for the fake servers of
`segue.testing`.

A reply is one of

- a text,
- a dict `{text?, reasoning?, tool_calls?: [{id?, name, arguments}], choose?, finish?, usage?, error?, delay?,
  pace?}`,
- a list of chunks (`segue.models.protocol`), passed on as they are,
- a `ModelError`, raised,
- a callable that takes the `ModelRequest` and returns one of the above.

`choose: i` answers with the request's i-th choice. `error` is `{type, message?, retry_after?}`; it comes
after the text, if there is any: a stream that breaks off. `delay` is seconds before the first chunk, `pace`
seconds before each later one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from segue.errors import (
    BadModelRequest,
    ContextTooLong,
    ModelAuthError,
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
    UsageError,
)
from segue.models.protocol import (
    Chunk,
    Finish,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    Usage,
)

ReplyLike = Any
"""Anything of the shapes above; `normal` says what is wrong with others."""

ERRORS: dict[str, type[ModelError]] = {
    "auth": ModelAuthError,
    "rate_limited": ModelRateLimited,
    "context_too_long": ContextTooLong,
    "bad_request": BadModelRequest,
    "unavailable": ModelUnavailable,
    "timeout": ModelTimeout,
}


class ScriptedCall(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: Any = ""
    """A text as the model would write it (also malformed), or a value that becomes its JSON text."""
    id: str = ""
    """Empty: `call_<n>_<k>`, the k-th call of the n-th reply, both from 1."""


class ScriptedError(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    message: str = ""
    retry_after: float | None = None


class ScriptedReply(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    reasoning: str = ""
    tool_calls: list[ScriptedCall] = []
    choose: int | None = None
    finish: str = ""
    """Empty: `tool_calls` when there are some, else `stop`."""
    usage: Usage | None = None
    """None: counted in words."""
    error: ScriptedError | None = None
    delay: float = 0.0
    pace: float = 0.0
    status: int = 0
    """Fake servers only: the HTTP status of `error`; 0 takes the usual one of its type."""
    headers: dict[str, str] = {}
    """Fake servers only: more headers of the response."""
    split_bytes: int = 0
    """Fake servers only: send the stream in pieces of so many bytes, wherever they cut."""
    chunks: list[Any] = []
    """Instead of all above: these `Chunk`s, as they are."""


class ScriptedRule(msgspec.Struct, forbid_unknown_fields=True):
    contains: str
    """A text that any message of the request has in it."""
    reply: Any


class Script:
    """Rules first (the first that matches; any number of times), then the replies in order, then the
    default."""

    def __init__(
        self, replies: Iterable[ReplyLike], rules: Iterable[ScriptedRule] = (), default: ReplyLike = None
    ) -> None:
        self.replies, self.rules, self.default = list(replies), list(rules), default
        self._used = self._taken = 0
        self._lock = threading.Lock()

    def take(self, request: ModelRequest) -> ScriptedReply:
        """The reply to this request. Raises `BadModelRequest` when there is none, and the reply if it is an
        error."""
        with self._lock:
            self._taken += 1
            taken, raw = self._taken, self._next(request)
        return complete(normal(raw, request), request, taken)

    def _next(self, request: ModelRequest) -> ReplyLike:
        asked = request_text(request)
        for rule in self.rules:
            if rule.contains in asked:
                return rule.reply
        if self._used < len(self.replies):
            self._used += 1
            return self.replies[self._used - 1]
        if self.default is not None:
            return self.default
        count = len(self.replies)
        raise BadModelRequest(
            f"the script has {count} {'reply' if count == 1 else 'replies'} and this is call {self._taken}:"
            " add a reply, or a default"
        )


def read_script(path: Path) -> Script:
    """A JSON file: a list of replies, or `{replies?, rules?: [{contains, reply}], default?}`. Raises
    `UsageError`."""
    try:
        value = msgspec.json.decode(path.read_bytes())
        parts = {"replies": value} if isinstance(value, list) else msgspec.convert(value, dict[str, Any])
        unknown = parts.keys() - {"replies", "rules", "default"}
        if unknown:
            raise UsageError(f"{path}: unknown key {min(unknown)!r}: a script has replies, rules and default")
        rules = msgspec.convert(parts.get("rules", []), list[ScriptedRule])
        script = Script(msgspec.convert(parts.get("replies", []), list[Any]), rules, parts.get("default"))
        for reply in [*script.replies, *(rule.reply for rule in rules), *_some(script.default)]:
            _from_value(reply)
        return script
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a script of replies: {error}") from error


def normal(reply: ReplyLike, request: ModelRequest) -> ScriptedReply:
    """Any of the shapes above as a `ScriptedReply`. Raises `UsageError` for others, and a reply that is an
    error."""
    if callable(reply):
        return normal(reply(request), request)
    if isinstance(reply, ModelError):
        raise reply
    if isinstance(reply, list | tuple):
        return ScriptedReply(chunks=list(reply))
    return _from_value(reply)


def complete(reply: ScriptedReply, request: ModelRequest, taken: int) -> ScriptedReply:
    """With everything filled in that the reply leaves to be derived: chosen text, call ids, finish, usage."""
    if reply.choose is not None:
        reply = msgspec.structs.replace(reply, text=_choice(request, reply.choose), choose=None)
    calls = [_complete_call(call, f"call_{taken}_{k}") for k, call in enumerate(reply.tool_calls, 1)]
    finish = reply.finish or ("tool_calls" if calls else "stop")
    reply = msgspec.structs.replace(reply, tool_calls=calls, finish=finish)
    return msgspec.structs.replace(reply, usage=reply.usage or _count(reply, request))


def chunks_of(reply: ScriptedReply, model: str) -> list[Chunk]:
    """The stream of a completed reply; without its `Finish` when an error follows."""
    if reply.chunks:
        ended = isinstance(reply.chunks[-1], Finish)
        return reply.chunks if ended else [*reply.chunks, Finish("stop", reply.usage, model)]
    chunks: list[Chunk] = [ReasoningChunk(piece) for piece in pieces(reply.reasoning)]
    chunks += [TextChunk(piece) for piece in pieces(reply.text)]
    chunks += [ToolCallChunk(call.id, call.name, call.arguments) for call in reply.tool_calls]
    return chunks if reply.error else [*chunks, Finish(reply.finish, reply.usage, model)]


def error_of(error: ScriptedError) -> ModelError:
    kind = ERRORS.get(error.type)
    if kind is None:
        raise UsageError(f"no error type {error.type!r} in a scripted reply: one of {', '.join(ERRORS)}")
    return kind(error.message or f"scripted error: {error.type}", retry_after=error.retry_after)


def pieces(text: str, count: int = 4) -> list[str]:
    """At most `count` pieces of equal length."""
    size = -(-len(text) // count)
    return [text[start : start + size] for start in range(0, len(text), size)] if text else []


def request_text(request: ModelRequest) -> str:
    """The texts of all messages, one below the other."""
    return "\n".join(content_text(message.get("content")) for message in request.messages)


def content_text(content: Any) -> str:
    """The text of a message's content, which is a text, a list of parts, or null."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _from_value(reply: ReplyLike) -> ScriptedReply:
    if isinstance(reply, ScriptedReply):
        return reply
    if isinstance(reply, str):
        return ScriptedReply(text=reply)
    try:
        made = msgspec.convert(reply, ScriptedReply)
    except msgspec.ValidationError as error:
        raise UsageError(f"not a scripted reply: {error}: {reply!r}") from error
    if made.error is not None:
        error_of(made.error)
    return made


def _some(value: Any) -> list[Any]:
    return [] if value is None else [value]


def _choice(request: ModelRequest, index: int) -> str:
    if not -len(request.choices) <= index < len(request.choices):
        raise UsageError(
            f"the scripted reply chooses {index}, but the request has {len(request.choices)} choices"
        )
    return request.choices[index]


def _complete_call(call: ScriptedCall, call_id: str) -> ScriptedCall:
    written = (
        call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
    )
    return ScriptedCall(id=call.id or call_id, name=call.name, arguments=written)


def _count(reply: ScriptedReply, request: ModelRequest) -> Usage:
    said = [reply.text, reply.reasoning, *(f"{call.name} {call.arguments}" for call in reply.tool_calls)]
    said += [chunk.text for chunk in reply.chunks if isinstance(chunk, TextChunk | ReasoningChunk)]
    return Usage(
        input_tokens=len(request_text(request).split()),
        output_tokens=sum(len(text.split()) for text in said),
        reasoning_tokens=len(reply.reasoning.split()),
    )
