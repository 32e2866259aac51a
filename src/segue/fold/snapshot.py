"""Compaction: a snapshot of messages takes the place of the history. It is kept verbatim where it is valid."""

from __future__ import annotations

from typing import Any

from segue.fold.entries import Call, Entry, Message, wire_call
from segue.fold.history import History

_ROLES = frozenset({"system", "developer", "user", "assistant"})


def compact(history: History, messages: list[Any]) -> None:
    """Replace the list by `messages`, which the history may keep.

    Calls still open at the end keep their approval; those that the snapshot dropped are appended again.
    """
    waiting = history.entries[-1].open_calls() if history.entries else []
    open_ids = list(history.open)
    history.__init__()  # type: ignore[misc]
    for message in messages:
        _take(history, message)
    history.journaled = {call.id for call in waiting}
    history.open = dict.fromkeys(open_ids)
    _carry(history, waiting)


def _take(history: History, message: Any) -> None:
    role = message.get("role") if type(message) is dict else None
    if role == "tool":
        _take_result(history, message)
    elif type(role) is str and role in _ROLES and _has_content(message):
        _take_message(history, message)


def _has_content(message: Message) -> bool:
    """Text or parts; an assistant message that calls may have null. A key left out is read as null."""
    content = message.get("content")
    if type(content) is str or type(content) is list:
        return True
    return content is None and message["role"] == "assistant" and any(_calls(message))


def _calls(message: Message) -> list[Message]:
    """The well-formed calls of an assistant message, the first of each id."""
    given = message.get("tool_calls")
    if message["role"] != "assistant" or type(given) is not list:
        return []
    good = {call["id"]: call for call in reversed(given) if _is_call(call)}
    return [call for call in given if _is_call(call) and good[call["id"]] is call]


def _is_call(call: Any) -> bool:
    function = call.get("function") if type(call) is dict else None
    return (
        type(function) is dict
        and call.get("type") == "function"
        and _is_name(call.get("id"))
        and _is_name(function.get("name"))
        and type(function.get("arguments")) is str
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and bool(value)


def _take_message(history: History, message: Message) -> None:
    calls = _calls(message)
    if type(message.get("content")) not in (str, list) and not calls:
        return
    entry = history.append({key: value for key, value in message.items() if key != "tool_calls"})
    for call in calls:
        history.attach(entry, call)


def _take_result(history: History, message: Message) -> None:
    """A result without an open call, or that is no text, is left out."""
    call_id = message.get("tool_call_id")
    call = history.waiting(call_id) if type(call_id) is str else None
    if call is not None and type(message.get("content")) in (str, list):
        history.answer(call, message)


def _carry(history: History, waiting: list[Call]) -> None:
    kept = {call.id: call for call in (history.entries[-1].open_calls() if history.entries else [])}
    dropped = [call for call in waiting if history.waiting(call.id) is None]
    for call in waiting:
        if call.id in kept:
            kept[call.id].approval = call.approval
    if dropped:
        _append_again(history, dropped)


def _append_again(history: History, dropped: list[Call]) -> Entry:
    entry = history.append({"role": "assistant", "content": ""})
    for call in dropped:
        function = call.wire["function"]
        again = history.attach(entry, wire_call(call.id, function["name"], function["arguments"]))
        again.approval = call.approval
    return entry
