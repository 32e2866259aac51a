"""Putting a JSON schema together: what is named once under `$defs`, and what stands where it is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]
_VALUES = {"enum", "const", "default", "examples"}
"""Keywords that hold values, not schemas."""
_BY_NAME = {"properties", "patternProperties", "dependentSchemas", "$defs"}
"""Keywords that hold schemas by name."""
_PREFIX = "#/$defs/"


class Definitions:
    """The named parts of one schema."""

    def __init__(self) -> None:
        self._made: dict[str, Schema] = {}
        self._names: dict[object, str] = {}
        self._adopted: dict[object, Schema] = {}

    def refer(self, key: object, name: str, make: Callable[[Definitions], Schema]) -> Schema:
        """A reference to the part of that key, which is made when it is first asked for."""
        if key not in self._names:
            self._names[key] = self._free(name)
            self._made[self._names[key]] = {}  # taken, while the part may refer to itself
            self._made[self._names[key]] = make(self)
        return {"$ref": _PREFIX + self._names[key]}

    def adopt(self, schema: Schema, key: object = None) -> Schema:
        """A whole schema of another maker, its own `$defs` taken over under free names; once for each key."""
        if key is None or key not in self._adopted:
            parts = schema.get("$defs", {})
            names = {name: self._free(name) for name in parts}
            for name, part in parts.items():
                self._made[names[name]] = _renamed(part, names)
            rest = {word: part for word, part in schema.items() if word != "$defs"}
            self._adopted[key] = _renamed(rest, names)
        return dict(self._adopted[key])

    def finish(self, top: Schema) -> Schema:
        """The schema with its `$defs`: those that are recursive or used more than once."""
        uses = Counter(name for part in [top, *self._made.values()] for name in _references(part))
        shared = {name for name in self._made if uses[name] > 1 or name in self._reached(name)}
        if name := _name(top):  # providers want an object at the top
            top = {**self._made[name], **_beside_reference(top)}
        made = self._inlined(top, shared)
        if shared:
            made["$defs"] = {
                name: self._inlined(part, shared) for name, part in self._made.items() if name in shared
            }
        return made

    def _reached(self, name: str) -> set[str]:
        """Names that are used inside that part, however deep."""
        found: set[str] = set()
        waiting = list(_references(self._made[name]))
        while waiting:
            inner = waiting.pop()
            if inner not in found:
                found.add(inner)
                waiting += _references(self._made.get(inner, {}))
        return found

    def _inlined(self, part: Schema, shared: set[str]) -> Schema:
        name = _name(part)
        if name in self._made and name not in shared:
            return self._inlined({**self._made[name], **_beside_reference(part)}, shared)
        if name and len(part) > 1:  # some providers allow nothing beside a reference
            return {"anyOf": [{"$ref": part["$ref"]}], **_beside_reference(part)}
        return _rebuilt(part, lambda inner: self._inlined(inner, shared))

    def _free(self, name: str) -> str:
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "part"
        number, free = 1, plain
        while free in self._made:
            number += 1
            free = f"{plain}_{number}"
        self._made[free] = {}
        return free


def _name(part: Schema) -> str:
    reference = part.get("$ref")
    return (
        reference.removeprefix(_PREFIX)
        if isinstance(reference, str) and reference.startswith(_PREFIX)
        else ""
    )


def _beside_reference(part: Schema) -> Schema:
    return {key: item for key, item in part.items() if key != "$ref"}


def _rebuilt(part: Schema, change: Callable[[Schema], Any]) -> Schema:
    """A copy with every schema directly inside changed."""
    return {key: _changed(key, item, change) for key, item in part.items()}


def _changed(key: str, item: Any, change: Callable[[Schema], Any]) -> Any:
    if key in _VALUES:
        return item
    if key in _BY_NAME:
        return {name: change(inner) if isinstance(inner, dict) else inner for name, inner in item.items()}
    if isinstance(item, list):
        return [change(inner) if isinstance(inner, dict) else inner for inner in item]
    return change(item) if isinstance(item, dict) else item


def _references(part: Schema) -> Iterator[str]:
    if name := _name(part):
        yield name
    inner: list[Schema] = []
    _rebuilt(part, inner.append)
    for schema in inner:
        yield from _references(schema)


def _renamed(part: Schema, names: dict[str, str]) -> Schema:
    made = _rebuilt(part, lambda inner: _renamed(inner, names))
    if _name(part) in names:
        made["$ref"] = _PREFIX + names[_name(part)]
    return made
