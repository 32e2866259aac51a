"""JSON values inside messages: copied, and written as text. Strict about nothing, safe for everything."""

from __future__ import annotations

import json
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any

from segue.errors import IntegerTooLarge
from segue.events.json_text import integer_text
from segue.fold.diagnostics import Malformed

MAX_DEPTH = 400
"""Deeper values are malformed: twice what the codec writes, far below what recursion can take."""

_default = json.JSONEncoder().encode

# The default encoder makes this callable anew for each value, which costs more than a small value itself.
_chunks = (
    c_make_encoder(
        None, json.JSONEncoder().default, encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    if c_make_encoder is not None
    else lambda value, _indent: (_default(value),)
)


def copy_json(value: Any, room: int = MAX_DEPTH) -> Any:
    """A copy that shares nothing mutable. Raises Malformed when it is nested too deep."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return value
    if not room:
        raise Malformed("a value is nested too deep")
    if kind is dict:
        return {key: copy_json(item, room - 1) for key, item in value.items()}
    return [copy_json(item, room - 1) for item in value]


def python_text(value: Any) -> str:
    """The text that Python's `json.dumps` gives by default, integers of any recordable size included.

    Raises Malformed for what is not JSON.
    """
    try:
        return "".join(_chunks(value, 0))
    except (ValueError, TypeError, RecursionError):
        return _slow_text(value)


def _slow_text(value: Any) -> str:
    """The default encoder refuses integers over the interpreter's limit: those are written one by one."""
    try:
        return _write(value, MAX_DEPTH)
    except (ValueError, TypeError, RecursionError, IntegerTooLarge) as error:
        raise Malformed(f"a value is not JSON: {type(error).__name__}") from error


def _write(value: Any, room: int) -> str:
    if type(value) is int:
        return integer_text(value)
    if not room:
        raise Malformed("a value is nested too deep")
    if type(value) is list:
        return f"[{', '.join(_write(item, room - 1) for item in value)}]"
    if type(value) is dict:
        items = (f"{_default(key)}: {_write(item, room - 1)}" for key, item in value.items() if _key(key))
        return f"{{{', '.join(items)}}}"
    return _default(value)


def _key(key: Any) -> bool:
    if type(key) is not str:
        raise Malformed("the key of an object is not text")
    return True
