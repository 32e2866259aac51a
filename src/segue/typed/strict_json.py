"""JSON text of a model, read without a guess: what two readers could understand differently is refused."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from segue.events.json_text import MAX_DEPTH, nested_deeper, whole_characters

MAX_DIGITS = 4300
"""Of an integer: with more, Python itself refuses to make text of it."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


class NotJson(ValueError):
    """Says what is wrong, and where."""


def read_json(text: str) -> Any:
    """The value of the text. Raises `NotJson` also for a key that stands twice, NaN, numbers too large to handle, half
    a character, and over 200 levels."""
    text = whole_characters(text)
    try:
        value = _DECODER.decode(text)
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        raise NotJson(_syntax(text, error)) from error
    except ValueError as error:  # an integer over a lower limit that the process has set
        raise NotJson(str(error)) from error
    except RecursionError as error:
        raise NotJson(f"it is nested more than {MAX_DEPTH} levels deep") from error
    if text.count("[") + text.count("{") > MAX_DEPTH and nested_deeper(value, MAX_DEPTH):
        raise NotJson(f"it is nested more than {MAX_DEPTH} levels deep")
    if (_SURROGATE.search(text) or _ESCAPED.search(text)) and _SURROGATE.search(
        json.dumps(value, ensure_ascii=False)
    ):
        raise NotJson("it holds half of a character (a lone surrogate)")
    return value


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    if text.lstrip().startswith("```"):
        return "it is in a Markdown fence: give the JSON alone"
    problem = "something follows its end" if error.msg == "Extra data" else error.msg.removesuffix(" at")
    if error.pos >= len(text):
        return f"{problem} at its end (character {len(text)}): ...{text[-40:]!r}"
    place = f"line {error.lineno}, column {error.colno}"
    return f"{problem} at {place}: {text[max(error.pos - 20, 0) : error.pos + 20]!r}"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NotJson(f"the key {json.dumps(twice)} stands twice in one object")
    return made


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise NotJson(f"an integer has {len(text):,} digits, over the limit of {MAX_DIGITS:,}")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"the number {text[:40]} is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
