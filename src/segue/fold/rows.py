"""What each type of row does to the history. A type without a handler does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from segue.fold.diagnostics import Malformed, Payload, dict_field, text_field
from segue.fold.entries import tool_message, wire_call
from segue.fold.history import History
from segue.fold.snapshot import compact
from segue.fold.values import copy_json, python_text

ROLES = frozenset({"system", "developer", "user", "assistant"})


def invocation_started(history: History, payload: Payload) -> None:
    content = user_content(dict_field(payload, "reason"))
    history.end_all()
    if content is not None:
        history.append({"role": "user", "content": content})


def user_content(reason: Payload) -> str | list[Any] | None:
    """What the user says with this reason: text or content parts; None when the reason is not from a user.

    Raises Malformed when there is no input.
    """
    kind = reason.get("kind")
    if type(kind) is not str:
        raise Malformed("reason.kind is not text")
    if (kind == "direct_call" and "input" not in reason) or kind not in ("user_message", "direct_call"):
        return None
    if "input" not in reason:
        raise Malformed("reason.input is missing")
    given = reason["input"]
    if type(given) is str:
        return given
    if _is_parts(given):
        return copy_json(given)  # type: ignore[no-any-return]
    return python_text(given)


def _is_parts(value: Any) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(type(part) is dict and type(part.get("type")) is str for part in value)
    )


def message_start(history: History, payload: Payload) -> None:
    role = payload.get("role")
    known = type(role) is str and role in ROLES
    history.start(text_field(payload, "message_id"), role if known else "assistant")  # type: ignore[arg-type]


def message_delta(history: History, payload: Payload) -> None:
    message_id, delta = payload.get("message_id"), payload.get("delta")
    if type(message_id) is not str:
        raise Malformed("message_id is not text")
    kind = delta.get("type") if type(delta) is dict else None
    if kind == "text" or kind == "reasoning":
        text = delta.get("text")  # type: ignore[union-attr]
        if type(text) is not str:
            raise Malformed("delta.text is not text")
    elif "delta" not in payload:
        raise Malformed("delta is missing")
    if message_id not in history.open:
        return
    entry = history.open[message_id] or history.continued(message_id)
    history.touch(entry)
    if kind == "text":
        entry.texts.append(text)
    elif kind == "reasoning":
        entry.add_reasoning(text)
    else:
        entry.add_chunk(copy_json(delta))


def message_end(history: History, payload: Payload) -> None:
    message_id = text_field(payload, "message_id")
    state = copy_json(payload.get("framework_state"))
    entry = history.end(message_id)
    if entry is not None and state is not None:
        history.touch(entry)
        entry.state = state


def tool_call(history: History, payload: Payload) -> None:
    wire = _wire(payload)
    if not history.repeats(wire["id"]):
        history.add_call(wire)


def _wire(payload: Payload) -> Payload:
    call_id, name = payload.get("tool_call_id"), payload.get("name")
    if type(call_id) is not str or type(name) is not str or not (call_id and name):
        raise Malformed("tool_call_id or name is not a name")
    if "arguments" not in payload:
        raise Malformed("arguments are missing")
    arguments = payload["arguments"]
    return wire_call(call_id, name, arguments if type(arguments) is str else python_text(arguments))


def tool_result(history: History, payload: Payload) -> None:
    call_id = text_field(payload, "tool_call_id")
    if "result" not in payload:
        raise Malformed("result is missing")
    result = payload["result"]
    content = result if type(result) is str else python_text(result)
    call = history.waiting(call_id)
    if call is None:
        raise Malformed(f"no open call has the id {call_id!r:.100}: its result is left out")
    history.answer(call, tool_message(call_id, content))


def tool_started(history: History, payload: Payload) -> None:
    call = history.waiting(text_field(payload, "tool_call_id"))
    if call is not None:
        history.ask(call, None)


def approval_required(history: History, payload: Payload) -> None:
    wire, kept = _wire(payload), copy_json(payload)
    call = history.open_at_end(wire["id"])
    if call is None:
        known = wire["id"] in history.journaled
        call = history.waiting(wire["id"]) if known else history.add_call(wire)
    if call is not None:
        history.ask(call, kept)
    history.live = {}


def transcript_compacted(history: History, payload: Payload) -> None:
    messages = payload.get("messages")
    if type(messages) is not list:
        raise Malformed("messages is not a list")
    compact(history, copy_json(messages))


def no_more_actions(history: History, payload: Payload) -> None:
    history.live = {}


def session_error(history: History, payload: Payload) -> None:
    history.died()


HANDLERS: dict[str, Callable[[History, Payload], None]] = {
    "MESSAGE_DELTA": message_delta,
    "MESSAGE_START": message_start,
    "MESSAGE_END": message_end,
    "INVOCATION_STARTED": invocation_started,
    "TOOL_CALL": tool_call,
    "TOOL_STARTED": tool_started,
    "TOOL_RESULT": tool_result,
    "TOOL_APPROVAL_REQUIRED": approval_required,
    "TRANSCRIPT_COMPACTED": transcript_compacted,
    "NO_MORE_ACTIONS": no_more_actions,
    "SESSION_ERROR": session_error,
}
