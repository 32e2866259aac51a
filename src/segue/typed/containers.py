"""Forms of arrays and of objects with free keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from segue.typed.forms import Form, Gathering, How, member, misfit, misfit_of, opened, refuse, shown
from segue.typed.schemas import Definitions


class Items:
    """An array of any length."""

    def __init__(self, item: Form, make: Callable[[list[Any]], Any], *, unique: bool = False) -> None:
        self._item, self._make, self._unique = item, make, unique
        self.expected = "a list"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        inner = self._item.schema(definitions)
        return {"type": "array", "items": inner} | ({"uniqueItems": True} if self._unique else {})

    def convert(self, value: Any, at: str, how: How) -> Any:
        value = opened(value, how)
        if not isinstance(value, list):
            refuse(at, self.expected, value)
        gathering = Gathering()
        made = [
            gathering.convert(self._item, part, f"{at}[{index}]", how) for index, part in enumerate(value)
        ]
        gathering.finish()
        try:
            return self._make(made)
        except TypeError as error:  # a set's item that has no hash
            raise misfit_of(at, error) from error


class Tuple:
    """An array of fixed length."""

    def __init__(self, items: Sequence[Form]) -> None:
        self._items = items
        self.expected = f"a list of {len(items)}: " + ", ".join(item.expected for item in items)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        length = len(self._items)
        made: dict[str, Any] = {"type": "array", "minItems": length, "maxItems": length}
        if self._items:
            made["prefixItems"] = [item.schema(definitions) for item in self._items]
        return made

    def convert(self, value: Any, at: str, how: How) -> Any:
        value = opened(value, how)
        if not isinstance(value, list) or len(value) != len(self._items):
            refuse(at, self.expected, value)
        gathering = Gathering()
        pairs = enumerate(zip(self._items, value, strict=True))
        made = [gathering.convert(item, part, f"{at}[{index}]", how) for index, (item, part) in pairs]
        gathering.finish()
        return tuple(made)


class Mapping:
    """An object with free keys. Keys are JSON text, so theirs are always converted leniently."""

    expected = "an object"

    def __init__(self, key: Form, item: Form) -> None:
        self._key, self._item = key, item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        item = self._item.schema(definitions)
        names = self._key.schema(definitions).get("enum", [])
        if names and all(isinstance(name, str) for name in names):
            properties = dict.fromkeys(names, item)
            return {"type": "object", "properties": properties, "additionalProperties": False}
        return {"type": "object", "additionalProperties": item}

    def convert(self, value: Any, at: str, how: How) -> Any:
        value = opened(value, how)
        if not isinstance(value, dict):
            refuse(at, self.expected, value)
        gathering, made = Gathering(), {}
        for name, part in value.items():
            place = member(at, name)
            key = gathering.convert(self._key, name, f"the key of {place}", How(recorded=how.recorded))
            made[key] = gathering.convert(self._item, part, place, how)
        gathering.finish()
        if len(made) < len(value):
            raise misfit(at, f"two of its keys mean the same: {', '.join(map(shown, value))}")
        return made
