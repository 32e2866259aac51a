"""What `Annotated` says about a type: words for the model, and limits. From text, `msgspec.Meta`, pydantic's `Field`
and the constraints of annotated-types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

ORDER = ("ge", "gt", "le", "lt", "multiple_of")
LENGTH = ("min_length", "max_length")
ZONE = ("aware", "naive")
_FOREIGN = ("pydantic", "pydantic_core", "annotated_types")


class Limit(msgspec.Struct, frozen=True):
    said: str
    """What it adds to what is expected."""
    keyword: str
    """Its JSON schema keyword; for lengths the part before Length, Items or Properties."""
    holds: Callable[[Any, Any], Any]
    """Whether a value keeps to the limit."""


LIMITS = {
    "ge": Limit("of at least {}", "minimum", lambda value, limit: value >= limit),
    "gt": Limit("over {}", "exclusiveMinimum", lambda value, limit: value > limit),
    "le": Limit("of at most {}", "maximum", lambda value, limit: value <= limit),
    "lt": Limit("under {}", "exclusiveMaximum", lambda value, limit: value < limit),
    "multiple_of": Limit("that is a multiple of {}", "multipleOf", lambda value, limit: value % limit == 0),
    "min_length": Limit("of length {} or more", "min", lambda value, limit: len(value) >= limit),
    "max_length": Limit("of length {} or less", "max", lambda value, limit: len(value) <= limit),
    "pattern": Limit("that matches {}", "pattern", lambda value, limit: re.search(limit, value)),
    "aware": Limit("with a time zone", "", lambda value, limit: value.tzinfo is not None),
    "naive": Limit("without a time zone", "", lambda value, limit: value.tzinfo is None),
}
"""By the names that msgspec.Meta and annotated-types have for them; Meta's `tz` is two of them."""


class Words(msgspec.Struct):
    description: str = ""
    limits: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    """More of the JSON schema."""
    foreign: bool = False
    """Something here only pydantic understands."""


def words_of(metadata: Iterable[Any]) -> Words:
    words = Words()
    for item in metadata:
        _take(words, item)
    return words


def _take(words: Words, item: Any) -> None:
    module = type(item).__module__.partition(".")[0]
    if isinstance(item, str):
        words.description = item
    elif isinstance(item, msgspec.Meta):
        _take_meta(words, item)
    elif isinstance(said := getattr(item, "documentation", None), str):  # typing_extensions.Doc
        words.description = said
    elif type(item).__name__ == "FieldInfo" and module == "pydantic":
        _take_field(words, item)
    elif module in _FOREIGN and not _took_limits(words, item):
        words.foreign = True


def _take_meta(words: Words, meta: msgspec.Meta) -> None:
    words.description = meta.description or words.description
    words.limits |= {name: limit for name in LIMITS if (limit := getattr(meta, name, None)) is not None}
    if meta.tz is not None:
        words.limits["aware" if meta.tz else "naive"] = True
    words.extra |= {key: said for key in ("title", "examples") if (said := getattr(meta, key))}
    words.extra |= meta.extra_json_schema or {}


def _take_field(words: Words, field: Any) -> None:
    words.description = field.description or words.description
    words.extra |= {key: said for key in ("title", "examples") if (said := getattr(field, key))}
    words.foreign = words.foreign or field.discriminator is not None or field.alias is not None
    for item in field.metadata:
        _take(words, item)


def _took_limits(words: Words, item: Any) -> bool:
    """Whether it is a constraint of a known name, or a group of such."""
    if hasattr(item, "__iter__"):
        before = words.foreign
        for part in item:
            _take(words, part)
        return before or not words.foreign
    names = getattr(item, "__dataclass_fields__", None) or getattr(item, "__dict__", {})
    found = {name: limit for name in names if (limit := getattr(item, name)) is not None}
    words.limits |= {name: limit for name, limit in found.items() if name in LIMITS}
    return bool(found) and found.keys() <= LIMITS.keys()
