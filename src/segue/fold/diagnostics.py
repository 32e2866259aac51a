"""What a fold left out, and why. A bad row is reported, never raised: it must not make a session unreadable."""

from __future__ import annotations

from typing import Any

import msgspec

Payload = dict[str, Any]


class Diagnostic(msgspec.Struct, frozen=True):
    seq: int
    """Of the row."""
    type: str
    problem: str


class Malformed(Exception):
    """The row cannot be read. Raised before anything is changed."""


def text_field(payload: Payload, key: str) -> str:
    """A text that may be empty. Raises Malformed."""
    value = payload.get(key)
    if type(value) is not str:
        raise Malformed(f"{key} is not text")
    return value


def dict_field(payload: Payload, key: str) -> Payload:
    """An object. Raises Malformed."""
    value = payload.get(key)
    if type(value) is not dict:
        raise Malformed(f"{key} is not an object")
    return value


def text_or(value: Any, default: str = "") -> str:
    """The value when it is text, else the default: for fields whose absence changes little."""
    return value if type(value) is str else default
