"""Would a chat-completions provider accept this history?

Two strengths: `problems` judges the canonical fold, whose end may leave calls open (a pause); `provider_problems`
judges what is really sent, where nothing may be open and every detail is strict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

CANONICAL_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
SENT_ROLES = frozenset({"system", "user", "assistant", "tool"})
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def problems(messages: list[Message], *, open_end: bool = True) -> list[str]:
    """What is wrong with a canonical history; empty when nothing is.

    With `open_end`, calls of the last assistant message may lack their results, as long as nothing else follows.
    """
    shape = [text for at, message in enumerate(messages) for text in _shape(at, message)]
    return shape or [*_pairing(messages, open_end)]


def provider_problems(messages: list[Message]) -> list[str]:
    """What is wrong with a request's messages; empty when nothing is."""
    found = problems(messages, open_end=False)
    if found:
        return found
    strict = [text for at, message in enumerate(messages) for text in _strict(at, message)]
    return [*strict, *_result_order(messages), *_encoding(messages)]


def _shape(at: int, message: Any) -> Iterator[str]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in CANONICAL_ROLES:
        yield f"{at}: unknown role"
        return
    calls = message.get("tool_calls")
    content = message.get("content")
    if not isinstance(content, (str, list)) and not (content is None and role == "assistant" and calls):
        yield f"{at}: content of type {type(content).__name__}"
    if role != "assistant" and "tool_calls" in message:
        yield f"{at}: calls on a message of role {role}"
    if role == "assistant":
        yield from (f"{at}: malformed call" for call in calls or () if not _is_call(call))


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type") != "function":
        return False
    names = (call.get("id"), function.get("name"))
    return all(isinstance(name, str) and name for name in names) and isinstance(
        function.get("arguments"), str
    )


def _pairing(messages: list[Message], open_end: bool) -> Iterator[str]:
    """Every call is answered once, by the run of tool messages right after its message."""
    at = 0
    while at < len(messages):
        ids = [call["id"] for call in messages[at].get("tool_calls") or ()]
        if messages[at]["role"] == "tool":
            yield f"{at}: a result without its call before it"
        if len(set(ids)) < len(ids):
            yield f"{at}: two calls with one id"
        end = _end_of_results(messages, at + 1) if ids else at + 1
        answers = [message.get("tool_call_id") for message in messages[at + 1 : end]]
        if len(set(answers)) < len(answers):
            yield f"{at}: a call answered twice"
        yield from (
            f"{at}: a result of a call that it did not make" for answer in answers if answer not in ids
        )
        if not (open_end and end == len(messages)):
            yield from (f"{at}: call {call_id} has no result" for call_id in ids if call_id not in answers)
        at = end


def _end_of_results(messages: list[Message], start: int) -> int:
    at = start
    while at < len(messages) and messages[at]["role"] == "tool":
        at += 1
    return at


def _strict(at: int, message: Message) -> Iterator[str]:
    role, calls = message["role"], message.get("tool_calls") or []
    if role not in SENT_ROLES:
        yield f"{at}: role {role} is not sent"
    if role == "system" and at:
        yield f"{at}: a system message that is not the first"
    if role == "assistant" and not calls and not message.get("content"):
        yield f"{at}: an empty assistant message"
    yield from (f"{at}: private key {key}" for key in message if key.startswith("_"))
    for call in calls:
        if TOOL_NAME.fullmatch(call["function"]["name"]) is None:
            yield f"{at}: tool name {call['function']['name']!r:.80}"
        if not _is_object_text(call["function"]["arguments"]):
            yield f"{at}: arguments are not the text of a JSON object"


def _is_object_text(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse, parse_int=len), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(name: str) -> None:
    raise ValueError(name)


def _result_order(messages: list[Message]) -> Iterator[str]:
    for at, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        following = messages[at + 1 : at + 1 + len(ids)]
        if ids != [result.get("tool_call_id") for result in following]:
            yield f"{at}: results are not in call order"


def _encoding(messages: list[Message]) -> Iterator[str]:
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        yield f"not strict JSON in UTF-8: {type(error).__name__}"
