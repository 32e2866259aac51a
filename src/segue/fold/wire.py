"""The parts of a message in the form that strict providers take: text, values, arguments, tool names."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from segue.events.json_text import MAX_DEPTH, whole_characters
from segue.fold.diagnostics import Malformed
from segue.fold.values import python_text

MAX_DIGITS = 4300
"""Integers with more become text: Python's json, at the other end too, refuses to read them."""

_MAX_BITS = 14_280  # 4,299 digits
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def clean_text(text: str) -> str:
    """Surrogate pairs joined; those that stay alone become U+FFFD."""
    return _SURROGATE.sub("\ufffd", whole_characters(text))


def clean_value(value: Any, room: int = MAX_DEPTH) -> Any:
    """A copy that is strict JSON: NaN and Infinity, integers over 4,300 digits, and what is nested over 200
    levels become text."""
    kind = type(value)
    if kind is str:
        return clean_text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else as_text(value)
    if kind is float:
        return value if math.isfinite(value) else json.dumps(value)
    if room and kind is dict:
        return {clean_text(str(key)): clean_value(item, room - 1) for key, item in value.items()}
    if room and kind is list:
        return [clean_value(item, room - 1) for item in value]
    return as_text(value)


def as_text(value: Any) -> str:
    """A value that has to be text: its JSON text."""
    try:
        return clean_text(python_text(value))
    except Malformed:
        return f"<{type(value).__name__}>"


# --- arguments ---


class _Arguments(json.JSONDecoder):
    """Reads as Python does, and remembers whether there was something that a strict reader refuses."""

    def __init__(self) -> None:
        super().__init__(parse_int=self._integer, parse_constant=self._constant)
        self.odd = False

    def _integer(self, text: str) -> int | str:
        if len(text) <= MAX_DIGITS:
            return int(text)
        self.odd = True
        return text

    def _constant(self, text: str) -> str:
        self.odd = True
        return text


def clean_arguments(text: str) -> str:
    """The text of a strict JSON object: itself where it is one; `{}` for blank and null; else `{"_raw": text}`."""
    if not text.strip():
        return "{}"
    reader = _Arguments()
    try:
        value = reader.decode(text)
    except (ValueError, RecursionError):
        return _raw(text)
    if value is None:
        return "{}"
    if type(value) is not dict or _is_deep(text, value):
        return _raw(text)
    if reader.odd or _SURROGATE.search(text) or _ESCAPED_SURROGATE.search(text):
        return _encode(clean_value(value))
    return text


def _raw(text: str) -> str:
    return _encode({"_raw": clean_text(text)})


def _is_deep(text: str, value: Any) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for holder in level for item in _items(holder)]
        if not level:
            return False
    return True


def _items(holder: Any) -> Iterable[Any]:
    if type(holder) is dict:
        return holder.values()
    return holder if type(holder) is list else ()


# --- tool names ---


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Each name and what a provider is told in its place, different for different names.

    A name that providers take stays. Any other gets the hash of itself at its end, so that it is the same in
    every process, and whatever other names there are (but for one that imitates it exactly).
    """
    given = sorted(set(names))
    mapped = {name: name for name in given if _TOOL_NAME.fullmatch(name)}
    taken = set(mapped)
    for name in given:
        if name not in mapped:
            mapped[name] = _free_name(name, taken)
            taken.add(mapped[name])
    return mapped


def _free_name(name: str, taken: set[str]) -> str:
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:51].strip("_") or "tool"
    attempt = name
    while True:
        digest = hashlib.sha256(attempt.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        candidate = f"{readable}_{digest}"
        if candidate not in taken:
            return candidate
        attempt += "'"
