"""Forms of objects with named parts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from segue.typed.forms import Form, Gathering, How, member, misfit_of, opened, refuse, shown
from segue.typed.schemas import Definitions


class Field(msgspec.Struct, frozen=True):
    name: str
    """In the code."""
    key: str
    """In JSON."""
    form: Form
    required: bool
    description: str = ""
    default: Any = msgspec.UNSET
    """As JSON, for the schema only."""


class Record:
    """An object with these keys and no others."""

    def __init__(
        self,
        name: str,
        fields: Sequence[Field],
        make: Callable[[dict[str, Any]], Any],
        *,
        description: str = "",
        tag: tuple[str, Any] | None = None,
        positional: bool = False,
        derived: frozenset[str] = frozenset(),
        what: str = "key",
    ) -> None:
        self.name, self.fields = name, list(fields)
        self._make, self._description, self._tag = make, description, tag
        self._positional, self._derived, self._what = positional, derived, what
        self._by_key = {field.key: field for field in self.fields}
        self.expected = f"an object with {', '.join(self._by_key)}" if self._by_key else "an empty object"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.refer(self, self.name, self.body)

    def body(self, definitions: Definitions) -> dict[str, Any]:
        properties = {field.key: _property(field, definitions) for field in self.fields}
        required = [field.key for field in self.fields if field.required]
        if self._tag is not None:
            properties = {self._tag[0]: {"const": self._tag[1]}, **properties}
            required = [self._tag[0], *required]
        made: dict[str, Any] = {"description": self._description} if self._description else {}
        return made | {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def convert(self, value: Any, at: str, how: How) -> Any:
        value = opened(value, how)
        if self._positional and how.recorded and isinstance(value, list) and len(value) <= len(self.fields):
            value = dict(zip(self._by_key, value, strict=False))
        if not isinstance(value, dict):
            refuse(at, self.expected, value)
        made = self._make_fields(self._untagged(value, at), at, how)
        try:
            return self._make(made)
        except Exception as error:  # the class's own checks, of any kind
            raise misfit_of(at, error) from error

    def _untagged(self, value: dict[str, Any], at: str) -> dict[str, Any]:
        if self._tag is None:
            return value
        key, tag = self._tag
        if value.get(key) != tag:
            refuse(at, f"{self.expected} whose {key} is {shown(tag)}", value)
        return {name: part for name, part in value.items() if name != key}

    def _make_fields(self, value: dict[str, Any], at: str, how: How) -> dict[str, Any]:
        gathering = Gathering()
        for key in value:
            if key not in self._by_key and not (how.recorded and key in self._derived):
                gathering.lines.append(self._unknown(key, at))
        made = {}
        for field in self.fields:
            place = member(at, field.key)
            if field.key in value:
                made[field.name] = gathering.convert(field.form, value[field.key], place, how)
            elif field.required:
                gathering.lines.append(f"{place}: it is missing; expected {field.form.expected}")
        gathering.finish()
        return made

    def _unknown(self, key: str, at: str) -> str:
        close = difflib.get_close_matches(key, self._by_key, n=1)
        there = ", ".join(self._by_key) or "none"
        hint = f"did you mean {close[0]}?" if close else f"there is {there}"
        return f"{member(at, key)}: there is no such {self._what}; {hint}"


def _property(field: Field, definitions: Definitions) -> dict[str, Any]:
    made = field.form.schema(definitions)
    said = [text for text in (field.description, made.get("description", "")) if text]
    if field.description:
        made = made | {"description": "\n".join(said)}
    return made if field.default is msgspec.UNSET else made | {"default": field.default}
