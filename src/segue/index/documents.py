"""What of a journal can be searched: one document for each message, call, result, question, answer, error and title."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Payload, text_or

LONGEST = 64 * 1024
"""Characters of a document that are indexed; what comes later in it is not found."""
TITLE, TAGS, FIRST_ROW = 0, 1, 2
"""Places of documents in a session: title and tags have one each, a row's is its seq and FIRST_ROW."""


class Document(msgspec.Struct, frozen=True):
    seq: int
    """Of the row that it begins with."""
    kind: str
    """message, call, tool call, result, question, answer, error, title or tags."""
    name: str
    """Role of a message, name of what was called; may be empty."""
    at: str
    text: str
    """Empty: there is nothing, or nothing any more, to be found."""


class OpenMessage(msgspec.Struct):
    seq: int
    role: str
    at: str
    text: str


class DocumentsState(msgspec.Struct):
    """What has to be known of earlier rows."""

    messages: dict[str, OpenMessage] = {}
    """By message id: still being written."""
    calls: dict[str, tuple[str, str]] = {}
    """Kind and name of calls without a result, by node or tool call id."""


class Documents:
    """Incremental: `apply` rows in order, then ask what `changed`."""

    def __init__(self, state: DocumentsState | None = None) -> None:
        self.state = state or DocumentsState()
        self._documents: dict[int, Document] = {}
        self._grown: dict[int, OpenMessage] = {}

    def changed(self) -> dict[int, Document]:
        """The documents that are new or another, by their place in the session."""
        grown = {
            place: Document(message.seq, "message", message.role, message.at, message.text)
            for place, message in self._grown.items()
        }
        return self._documents | grown

    def apply(self, envelope: Envelope) -> None:
        handler = _HANDLERS.get(envelope.type)
        if handler is not None and type(envelope.payload) is dict:
            handler(self, envelope, envelope.payload)

    def _put(self, envelope: Envelope, kind: str, name: str, *values: Any, place: int | None = None) -> None:
        text = plain(*values)
        if text or place is not None:
            document = Document(envelope.seq, kind, name[:200], envelope.created_at, text)
            self._documents[FIRST_ROW + envelope.seq if place is None else place] = document

    def _described(self, envelope: Envelope, payload: Payload) -> None:
        """Title and tags, as far as this row sets them."""
        title, tags = text_or(payload.get("title")), payload.get("tags")
        if title:
            self._put(envelope, "title", "", title, place=TITLE)
        if type(tags) is list:
            self._put(envelope, "tags", "", [tag for tag in tags if type(tag) is str], place=TAGS)

    def _invocation_started(self, envelope: Envelope, payload: Payload) -> None:
        self.state.messages.clear()
        reason = payload.get("reason")
        if type(reason) is dict and reason.get("kind") in ("user_message", "direct_call"):
            self._put(envelope, "message", "user", _said(reason.get("input")))

    def _ended(self, envelope: Envelope, payload: Payload) -> None:
        self.state.messages.clear()
        self.state.calls.clear()

    def _message_start(self, envelope: Envelope, payload: Payload) -> None:
        role = text_or(payload.get("role")) or "assistant"
        message = OpenMessage(envelope.seq, role, envelope.created_at, "")
        self.state.messages[text_or(payload.get("message_id"))] = message

    def _message_delta(self, envelope: Envelope, payload: Payload) -> None:
        message, delta = self.state.messages.get(text_or(payload.get("message_id"))), payload.get("delta")
        if message is None or type(delta) is not dict or delta.get("type") != "text":
            return
        room = LONGEST - len(message.text)
        if room > 0:
            message.text += text_or(delta.get("text"))[:room]
            self._grown[FIRST_ROW + message.seq] = message

    def _message_end(self, envelope: Envelope, payload: Payload) -> None:
        self.state.messages.pop(text_or(payload.get("message_id")), None)

    def _tool_call(self, envelope: Envelope, payload: Payload) -> None:
        name = text_or(payload.get("name"))
        self.state.calls[text_or(payload.get("tool_call_id"))] = ("tool", name)
        self._put(envelope, "tool call", name, name, payload.get("arguments"))

    def _tool_result(self, envelope: Envelope, payload: Payload) -> None:
        _, name = self.state.calls.pop(text_or(payload.get("tool_call_id")), ("", ""))
        self._put(envelope, "result", name, payload.get("result"))

    def _call_started(self, envelope: Envelope, payload: Payload) -> None:
        name = text_or(payload.get("name"))
        self.state.calls[text_or(payload.get("node_id"))] = (text_or(payload.get("kind")), name)
        self._put(envelope, "call", name, name, payload.get("arguments"))

    def _call_ended(self, envelope: Envelope, payload: Payload) -> None:
        kind, name = self.state.calls.pop(text_or(payload.get("node_id")), ("", ""))
        if type(payload.get("error")) is dict:
            self._put(envelope, "error", name, payload["error"].get("message"))
        elif kind != "model":  # its reply is a message already
            self._put(envelope, "result", name, payload.get("result"))

    def _resolved(self, envelope: Envelope, payload: Payload) -> None:
        self._put(envelope, "result", "", payload.get("result"))

    def _question(self, envelope: Envelope, payload: Payload) -> None:
        self._put(envelope, "question", "", payload.get("question"), payload.get("options"))

    def _answer(self, envelope: Envelope, payload: Payload) -> None:
        self._put(envelope, "answer", "", payload.get("answer"))

    def _error(self, envelope: Envelope, payload: Payload) -> None:
        self._put(envelope, "error", "", payload.get("message"))

    def _died(self, envelope: Envelope, payload: Payload) -> None:
        self._ended(envelope, payload)
        self._error(envelope, payload)


_HANDLERS = {
    "SESSION_CREATED": Documents._described,
    "SESSION_UPDATED": Documents._described,
    "INVOCATION_STARTED": Documents._invocation_started,
    "NO_MORE_ACTIONS": Documents._ended,
    "TURN_CANCELLED": Documents._ended,
    "MESSAGE_START": Documents._message_start,
    "MESSAGE_DELTA": Documents._message_delta,
    "MESSAGE_END": Documents._message_end,
    "TOOL_CALL": Documents._tool_call,
    "TOOL_RESULT": Documents._tool_result,
    "CALL_STARTED": Documents._call_started,
    "CALL_ENDED": Documents._call_ended,
    "CALL_RESOLVED": Documents._resolved,
    "QUESTION_ASKED": Documents._question,
    "QUESTION_ANSWERED": Documents._answer,
    "ERROR": Documents._error,
    "SESSION_ERROR": Documents._died,
}


def plain(*values: Any) -> str:
    """The words of JSON values, keys included, without JSON's quotes and escapes; at most LONGEST characters."""
    pieces, room = [], LONGEST
    for piece in _pieces(values):
        pieces.append(piece[:room])
        room -= len(piece) + 1
        if room <= 0:
            break
    return " ".join(pieces)


def _pieces(value: Any) -> Iterator[str]:
    if type(value) is str:
        if value:
            yield value
    elif type(value) is list or type(value) is tuple:
        for item in value:
            yield from _pieces(item)
    elif type(value) is dict:
        for key, item in value.items():
            yield f"{key}:"
            yield from _pieces(item)
    elif value is not None:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    try:
        return str(value).lower() if type(value) is bool else str(value)
    except ValueError:  # more digits than the interpreter likes to write
        return ""


def _said(given: Any) -> Any:
    """Of content parts the texts; anything else as it is."""
    if type(given) is list and given and all(type(part) is dict and "type" in part for part in given):
        return [part.get("text") for part in given]
    return given
