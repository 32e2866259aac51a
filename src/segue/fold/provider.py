"""The provider view: a history in the form that even a strict chat-completions server accepts.

Pure and deterministic: the same messages give the same bytes. The meaning stays; what changes is form.
"""

from __future__ import annotations

from typing import Any

from segue.errors import PendingCalls
from segue.fold.entries import Message
from segue.fold.wire import as_text, clean_arguments, clean_text, clean_value, wire_names

_EXTRA_KEYS = {"deepseek": ("reasoning_content",)}
"""By dialect: what goes back to the provider beyond role, content, name and calls."""

_SPEAKERS = ("user", "assistant")


def provider_messages(messages: list[Message], dialect: str = "openai") -> list[Message]:
    """The messages of a request, sharing nothing with the given ones.

    Results stand in call order right after their message; arguments are the text of a JSON object; tool names
    are those of `wire_names`; there is one system message at most, the first; no assistant message is empty.
    Raises `PendingCalls` while a call has no result.
    """
    view = _View(messages, _EXTRA_KEYS.get(dialect, ()))
    at = 0
    while at < len(messages):
        at = view.take(messages, at)
    return view.finished()


class _View:
    def __init__(self, messages: list[Message], extra: tuple[str, ...]) -> None:
        self.extra = extra
        self.names = wire_names(call["function"]["name"] for message in messages for call in _calls(message))
        self.system: list[str | list[Any]] = []
        self.rest: list[Message] = []

    def take(self, messages: list[Message], at: int) -> int:
        """Take the message, and its results with it; gives the position of the next one."""
        message = messages[at]
        role, calls = message.get("role"), _calls(message)
        if calls:
            end = _end_of_results(messages, at + 1)
            self._exchange(message, calls, messages[at + 1 : end])
            return end
        if role in ("system", "developer"):
            self._instruct(_content(message.get("content")))
        elif role in _SPEAKERS:
            self._say(message)
        return at + 1

    def finished(self) -> list[Message]:
        if not self.system:
            return self.rest
        return [{"role": "system", "content": _joined(self.system)}, *self.rest]

    def _instruct(self, content: str | list[Any]) -> None:
        if content:
            self.system.append(content)

    def _say(self, message: Message) -> None:
        said = self._spoken(message)
        if message["role"] == "user" or said["content"]:
            self.rest.append(said)

    def _spoken(self, message: Message) -> Message:
        said: Message = {"role": message["role"], "content": _content(message.get("content"))}
        name = message.get("name")
        if type(name) is str and wire_names([name])[name] == name:
            said["name"] = name
        for key in self.extra:
            if message.get(key):
                said[key] = clean_value(message[key])
        return said

    def _exchange(self, message: Message, calls: list[Message], results: list[Message]) -> None:
        found = {result.get("tool_call_id"): result for result in reversed(results)}
        missing = [call["id"] for call in calls if call["id"] not in found]
        if missing:
            raise PendingCalls(
                f"no result yet of {', '.join(map(ascii, missing))}: a history with open calls cannot be sent",
                call_ids=missing,
            )
        ids = _distinct([clean_text(call["id"]) for call in calls])
        said = self._spoken(message)
        said["tool_calls"] = [self._call(call, sent) for call, sent in zip(calls, ids, strict=True)]
        self.rest.append(said)
        for call, sent in zip(calls, ids, strict=True):
            content = _content(found[call["id"]].get("content"))
            self.rest.append({"role": "tool", "tool_call_id": sent, "content": content})

    def _call(self, call: Message, sent: str) -> Message:
        function = call["function"]
        name, arguments = self.names[function["name"]], clean_arguments(function["arguments"])
        return {"id": sent, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(message: Message) -> list[Message]:
    """The calls of an assistant message, the first of each id."""
    given = (message.get("tool_calls") or []) if message.get("role") == "assistant" else []
    return list({call["id"]: call for call in reversed(given)}.values())[::-1]


def _end_of_results(messages: list[Message], start: int) -> int:
    at = start
    while at < len(messages) and messages[at].get("role") == "tool":
        at += 1
    return at


def _content(content: Any) -> str | list[Any]:
    """Text, or a list of parts that is not empty."""
    if type(content) is str:
        return clean_text(content)
    if content is None:
        return ""
    if type(content) is not list:
        return as_text(content)
    return [_part(part) for part in content] or ""


def _part(part: Any) -> Message:
    cleaned = clean_value(part)
    if type(cleaned) is dict and type(cleaned.get("type")) is str:
        return cleaned
    return {"type": "text", "text": cleaned if type(cleaned) is str else as_text(cleaned)}


def _joined(contents: list[str | list[Any]]) -> str | list[Any]:
    """All texts as one, blank lines between; as parts when one of them is."""
    if all(type(content) is str for content in contents):
        return "\n\n".join(content for content in contents if type(content) is str)
    parts = [_content([content] if type(content) is str else content) for content in contents]
    return [part for content in parts for part in content]


def _distinct(ids: list[str]) -> list[str]:
    """Ids that became equal when they were cleaned get a number."""
    seen: set[str] = set()
    for index, call_id in enumerate(ids):
        number, free = 1, call_id
        while free in seen:
            number += 1
            free = f"{call_id}_{number}"
        seen.add(free)
        ids[index] = free
    return ids
