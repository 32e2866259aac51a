"""The part of a history that is left behind: saved messages, which are only read from now on.

They are what the fold cache holds, as it was decoded: no objects are made of them until somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from segue.fold.entries import (
    INTERRUPTED,
    Call,
    Entry,
    Message,
    detached,
    detached_call,
    tool_message,
    wire_call,
)
from segue.fold.values import copy_json


class SavedCall(msgspec.Struct, array_like=True, gc=False):
    id: str
    name: str
    arguments: str
    result: str | None
    """The text of its tool message."""


OddCall = dict[str, Any]
"""`{wire, result, approval}` of a call that waits for an approval, or came with a snapshot and has more in it."""


class SavedEntry(msgspec.Struct, array_like=True, gc=False):
    base: Message
    calls: tuple[SavedCall | OddCall, ...]
    results: tuple[int, ...] | None
    """Which of the calls have a result, in the order of the results; None: all, in the order of the calls."""
    reasoning: str | None
    chunks: list[Any] | None
    state: Any

    def messages(self) -> Iterator[Message]:
        """As `Entry.render` gives them for an entry that is not the last, sharing nothing."""
        message = detached(self.base)
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [_wire(call) for call in self.calls]
        if self.chunks:
            message["_native_chunks"] = copy_json(self.chunks)
        if self.state is not None:
            message["_framework_state"] = copy_json(self.state)
        yield message
        if self.results is None:
            yield from map(_result, self.calls)
        else:
            for at in self.results:
                yield _result(self.calls[at])
            for at, call in enumerate(self.calls):
                if at not in self.results:
                    yield tool_message(call_id(call), INTERRUPTED)


Saved = Message | SavedEntry
"""A message with nothing but its base is saved as that."""


def call_id(call: SavedCall | OddCall) -> str:
    return call.id if isinstance(call, SavedCall) else str(call["wire"]["id"])


def _wire(call: SavedCall | OddCall) -> Message:
    if isinstance(call, SavedCall):
        return wire_call(call.id, call.name, call.arguments)
    return detached_call(call["wire"])


def _result(call: SavedCall | OddCall) -> Message:
    """Of an answered call."""
    if isinstance(call, SavedCall):
        return tool_message(call.id, call.result)  # type: ignore[arg-type]
    return detached(call["result"])


def save_entry(entry: Entry) -> Saved:
    entry.settle()
    if entry.is_plain:
        return entry.base
    reasoning = entry.reasonings[0] if entry.reasonings else None
    calls = tuple(map(_save_call, entry.calls))
    results = None if list(entry.calls) == list(entry.results) else _places(entry)
    return SavedEntry(entry.base, calls, results, reasoning, entry.chunks, entry.state)


def _places(entry: Entry) -> tuple[int, ...]:
    places = {id(call): at for at, call in enumerate(entry.calls)}
    return tuple(places[id(call)] for call in entry.results)


def _save_call(call: Call) -> SavedCall | OddCall:
    wire, result = call.wire, call.result
    content = None if result is None else result.get("content")
    saved = SavedCall(call.id, wire["function"]["name"], wire["function"]["arguments"], content)
    plain = call.approval is None and (
        result is None or (type(content) is str and _same(_result(saved), result))
    )
    if plain and _same(_wire(saved), wire) and _same(_wire(saved)["function"], wire["function"]):
        return saved
    return {"wire": wire, "result": result, "approval": call.approval}


def _same(one: Message, other: Message) -> bool:
    """Also in the order of their keys, so that both are sent as the same bytes."""
    return one == other and list(one) == list(other)


def restore_entry(saved: Saved, index: int) -> Entry:
    if isinstance(saved, dict):
        entry = Entry(saved)
    else:
        entry = Entry(saved.base)
        entry.calls = calls = [_restore_call(call, entry) for call in saved.calls]
        entry.results = calls[:] if saved.results is None else [calls[at] for at in saved.results]
        entry.reasonings = None if saved.reasoning is None else [saved.reasoning]
        entry.chunks, entry.state = saved.chunks, saved.state
    entry.index = index
    return entry


def _restore_call(saved: SavedCall | OddCall, entry: Entry) -> Call:
    if isinstance(saved, SavedCall):
        call = Call(entry, _wire(saved))
        call.result = None if saved.result is None else _result(saved)
    else:
        call = Call(entry, saved["wire"])
        call.result, call.approval = saved["result"], saved["approval"]
    return call


def _size(item: Saved) -> int:
    """How many messages it is: a call has a result, or one is made up."""
    return 1 if isinstance(item, dict) else 1 + len(item.calls)


class Frozen:
    """The saved messages before the living ones."""

    def __init__(self, items: list[Saved] | None = None) -> None:
        self.items = items or []
        self._counted = 0
        self._messages = 0
        self._open: set[str] = set()

    def __len__(self) -> int:
        return len(self.items)

    def count(self) -> int:
        """How many messages they are with their results."""
        self._count()
        return self._messages

    def waits_for(self, call_id: str) -> bool:
        """Whether a result of that id would still be one for a call in here."""
        self._count()
        return call_id in self._open

    def messages(self, start: int) -> list[Message]:
        """Those from a position on, sharing nothing. Costs what is returned."""
        at, wanted = len(self.items), self.count() - start
        while wanted > 0:
            at -= 1
            wanted -= _size(self.items[at])
        found: list[Message] = []
        for item in self.items[at:]:
            if isinstance(item, dict):
                found.append(detached(item))
            else:
                found += item.messages()
        return found[-wanted:]

    def copy(self) -> Frozen:
        return Frozen(self.items[:])

    def _count(self) -> None:
        """What was not counted yet."""
        for item in self.items[self._counted :]:
            self._messages += _size(item)
            if isinstance(item, dict):
                continue
            answered = range(len(item.calls)) if item.results is None else item.results
            for at, call in enumerate(item.calls):
                if at in answered:
                    self._open.discard(call_id(call))
                else:
                    self._open.add(call_id(call))
        self._counted = len(self.items)
