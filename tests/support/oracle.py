"""An independent judge of histories: the validity rules V1 to V8 of chat-completions messages."""

from __future__ import annotations

import json
import re
from typing import Any

ROLES = ("system", "user", "assistant", "tool")


def violations(messages: list[dict[str, Any]]) -> list[str]:
    """What a provider would refuse; empty when nothing is."""
    found = [problem for at, message in enumerate(messages) for problem in _alone(at, message)]
    return [*found, *_paired(messages), *_encoding(messages)]


def _alone(at: int, message: dict[str, Any]) -> list[str]:
    found, role, calls = [], message.get("role"), message.get("tool_calls") or []
    if role not in ROLES:
        found.append(f"V1 unknown role at {at}")
    if role == "system" and at != 0:
        found.append(f"V1 system message not first (at {at})")
    if role == "assistant" and not calls and not message.get("content"):
        found.append(f"V7 empty assistant message (at {at})")
    ids = [call["id"] for call in calls]
    if len(set(ids)) != len(ids):
        found.append(f"V2 duplicate call id in one message (at {at})")
    for call in calls:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call["function"]["name"] or ""):
            found.append(f"V6 bad tool name (at {at})")
        if not _is_object(call["function"]["arguments"]):
            found.append(f"V5 arguments not a JSON object (at {at})")
    return found


def _is_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _paired(messages: list[dict[str, Any]]) -> list[str]:
    """Right after a message with calls stand their results, in the order of the calls; none stands elsewhere."""
    found, at = [], 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.get("role") == "tool":
            found.append(f"V4 tool message without its call (at {at - 1})")
            continue
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        given = []
        while ids and at < len(messages) and messages[at].get("role") == "tool":
            given.append(messages[at].get("tool_call_id"))
            at += 1
        if given != ids:
            found.append(f"V3 calls {ids} answered by {given} (before {at})")
    return found


def _encoding(messages: list[dict[str, Any]]) -> list[str]:
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        return [f"V8 not encodable: {type(error).__name__}"]
    return []
