"""One message of the history while it grows, with the calls it made and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.events.json_text import whole_characters
from segue.fold.values import copy_json

Message = dict[str, Any]

INTERRUPTED = "No result was recorded for this tool call: it was interrupted, so its outcome is unknown."
STITCH = "Your previous message was cut off by an error. Please continue it from exactly where it stopped."


class Call:
    """One occurrence of a tool call: ids may be used again, occurrences never are."""

    __slots__ = ("approval", "entry", "id", "result", "wire")

    def __init__(self, entry: Entry, wire: Message) -> None:
        self.entry = entry
        self.id: str = wire["id"]
        self.wire = wire
        """`{id, type, function: {name, arguments}}`."""
        self.result: Message | None = None
        """Its tool message."""
        self.approval: Message | None = None
        """Payload of the approval request that waits, as long as the tool was not started."""


class Entry:
    """A message with room for deltas; its results follow it wherever they were journaled."""

    __slots__ = ("base", "calls", "chunks", "index", "offset", "reasonings", "results", "state", "texts")

    def __init__(self, base: Message) -> None:
        self.base = base
        """Role and content as far as known when it was appended."""
        self.texts: list[str] = []
        self.reasonings: list[str] | None = None
        self.chunks: list[Any] | None = None
        self.state: Any = None
        self.calls: Sequence[Call] = ()
        self.results: Sequence[Call] = ()
        """Answered calls, in the order of their results."""
        self.index = 0
        """Position among the entries."""
        self.offset = 0
        """Position of the message in the rendered list, once it is rendered."""

    # Lists are made when they are needed: most messages need none of them, and each would cost the collector.

    def add_reasoning(self, text: str) -> None:
        if self.reasonings is None:
            self.reasonings = []
        self.reasonings.append(text)

    def add_chunk(self, chunk: Any) -> None:
        if self.chunks is None:
            self.chunks = []
        self.chunks.append(chunk)

    @property
    def is_open(self) -> bool:
        """Some call has no result."""
        return len(self.results) < len(self.calls)

    def add_call(self, call: Call) -> None:
        self.calls = _with(self.calls, call)

    def add_result(self, call: Call) -> None:
        self.results = _with(self.results, call)

    def open_calls(self) -> list[Call]:
        return [call for call in self.calls if call.result is None]

    def render(self, last: bool) -> list[Message]:
        """Message, results, and for calls that the conversation left behind a synthesised answer."""
        rendered = [self._message()]
        rendered += [call.result for call in self.results if call.result is not None]
        if not last and self.is_open:
            rendered += [tool_message(call.id, INTERRUPTED) for call in self.open_calls()]
        return rendered

    @property
    def is_plain(self) -> bool:
        """Nothing but its base."""
        return not (self.calls or self.reasonings or self.chunks or self.state is not None)

    def settle(self) -> None:
        """Join the pieces of text. The old base may be part of a rendered list, so there is a new one."""
        if self.texts:
            content = whole_characters(self.base["content"] + "".join(self.texts))
            self.base, self.texts = {**self.base, "content": content}, []
        if self.reasonings:
            self.reasonings = [whole_characters("".join(self.reasonings))]

    def _message(self) -> Message:
        self.settle()
        if self.is_plain:
            return self.base
        message = dict(self.base)
        if self.reasonings:
            message["reasoning_content"] = self.reasonings[0]
        if self.calls:
            message["tool_calls"] = [call.wire for call in self.calls]
        if self.chunks:
            message["_native_chunks"] = self.chunks[:]
        if self.state is not None:
            message["_framework_state"] = self.state
        return message

    def copy(self, calls: dict[int, Call]) -> Entry:
        """A copy that can grow apart. `calls` gets the new call under each old call's `id()`."""
        new = Entry(self.base)
        new.texts, new.reasonings, new.chunks = self.texts[:], _copied(self.reasonings), _copied(self.chunks)
        new.state, new.index, new.offset = self.state, self.index, self.offset
        for call in self.calls:
            twin = calls[id(call)] = Call(new, call.wire)
            twin.result, twin.approval = call.result, call.approval
        new.calls = [calls[id(call)] for call in self.calls]
        new.results = [calls[id(call)] for call in self.results]
        return new


def _with(calls: Sequence[Call], call: Call) -> Sequence[Call]:
    if isinstance(calls, list):
        calls.append(call)
        return calls
    return [call]


def _copied(items: list[Any] | None) -> list[Any] | None:
    return None if items is None else items[:]


def tool_message(call_id: str, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def wire_call(call_id: str, name: str, arguments: str) -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def detached(message: Message) -> Message:
    """A copy of a rendered message that the caller may change."""
    copied = message.copy()
    if len(copied) == 2 and type(copied.get("content")) is str:
        return copied
    for key, value in copied.items():
        if type(value) is not str:
            copied[key] = [detached_call(wire) for wire in value] if key == "tool_calls" else copy_json(value)
    return copied


def detached_call(wire: Message) -> Message:
    function = wire["function"]
    if len(wire) != 3 or len(function) != 2:  # one of a snapshot, with more in it
        return copy_json(wire)  # type: ignore[no-any-return]
    return {"id": wire["id"], "type": "function", "function": function.copy()}
