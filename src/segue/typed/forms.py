"""Forms: what a JSON value must look like to become a value of some type, and the JSON schema that says so.

`segue.typed.build.form_of` makes them of annotations. Each form says in words what it expects, so that a model can
correct what it wrote.

Conversion knows two degrees. Exact: the JSON value is what the schema says. Lenient: it is something else of which
the meaning is certain, as models write it: `"5"` or `5.0` for an integer, `"true"` for a boolean, an integer for
text, a list or object as its JSON text.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import msgspec

from segue.typed.described import LENGTH, LIMITS
from segue.typed.schemas import Definitions
from segue.typed.strict_json import NotJson, read_json

LONGEST_SHOWN = 80
"""Characters shown of a value that does not fit."""


class Misfits(Exception):
    """Everything in a value that is not of its form, one line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Form(Protocol):
    expected: str
    """What is expected, as it stands in a sentence: `an integer`."""

    def schema(self, definitions: Definitions) -> dict[str, Any]: ...

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        """The value of a JSON value that stands at `at`. Raises `Misfits`."""
        ...


def refuse(at: str, expected: str, value: Any) -> NoReturn:
    raise Misfits([f"{at or 'it'}: expected {expected}, got {shown(value)}"])


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text):,} characters)"


class Gathering:
    """Goes on after what does not fit, so that one answer names all of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def convert(self, form: Form, value: Any, at: str, lenient: bool) -> Any:
        try:
            return form.convert(value, at, lenient=lenient)
        except Misfits as misfits:
            self.lines += misfits.lines

    def finish(self) -> None:
        if self.lines:
            raise Misfits(self.lines)


class Anything:
    expected = "any JSON value"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {}

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        return value


class OneOf:
    """Literal and Enum: the JSON values and what each stands for."""

    def __init__(self, members: Sequence[tuple[Any, Any]], description: str = "") -> None:
        self._members = members
        self._description = description
        self.expected = f"one of {', '.join(shown(image) for image, _ in members)}"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        images = [image for image, _ in self._members]
        names = list(dict.fromkeys(_JSON_NAMES[type(image)] for image in images))
        made: dict[str, Any] = {"type": names[0]} if len(names) == 1 else {}
        return made | {"enum": images} | ({"description": self._description} if self._description else {})

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        for image, member in self._members:
            if type(image) is type(value) and image == value:
                return member
        if lenient and isinstance(value, str):
            for image, member in self._members:
                if not isinstance(image, str) and json.dumps(image) == value.strip():
                    return member
        if lenient and isinstance(value, float) and value.is_integer():
            return self.convert(int(value), at, lenient=False)
        refuse(at, self.expected, value)


class Items:
    """An array of any length."""

    def __init__(self, item: Form, make: Callable[[list[Any]], Any], *, unique: bool = False) -> None:
        self._item, self._make, self._unique = item, make, unique
        self.expected = "a list"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        inner = self._item.schema(definitions)
        return {"type": "array", "items": inner} | ({"uniqueItems": True} if self._unique else {})

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        value = opened(value, lenient)
        if not isinstance(value, list):
            refuse(at, self.expected, value)
        gathering = Gathering()
        made = [
            gathering.convert(self._item, part, f"{at}[{index}]", lenient) for index, part in enumerate(value)
        ]
        gathering.finish()
        try:
            return self._make(made)
        except TypeError as error:
            raise Misfits([f"{at or 'it'}: {error}"]) from error


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
            made["items"] = False
        return made

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        value = opened(value, lenient)
        if not isinstance(value, list) or len(value) != len(self._items):
            refuse(at, self.expected, value)
        gathering = Gathering()
        pairs = enumerate(zip(self._items, value, strict=True))
        made = [gathering.convert(item, part, f"{at}[{index}]", lenient) for index, (item, part) in pairs]
        gathering.finish()
        return tuple(made)


class Mapping:
    """An object with free keys. Keys are JSON text, so theirs are always converted leniently."""

    expected = "an object"

    def __init__(self, key: Form, item: Form) -> None:
        self._key, self._item = key, item

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object", "additionalProperties": self._item.schema(definitions)}
        names = self._key.schema(definitions)
        if names.get("enum") and all(isinstance(name, str) for name in names["enum"]):
            made["propertyNames"] = {"enum": names["enum"]}
        return made

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        value = opened(value, lenient)
        if not isinstance(value, dict):
            refuse(at, self.expected, value)
        gathering, made = Gathering(), {}
        for name, part in value.items():
            place = member(at, name)
            key = gathering.convert(self._key, name, f"the key of {place}", True)
            made[key] = gathering.convert(self._item, part, place, lenient)
        gathering.finish()
        if len(made) < len(value):
            raise Misfits([f"{at or 'it'}: two of its keys are the same: {', '.join(map(shown, value))}"])
        return made


class Union:
    """The first member that fits exactly, else the first that fits leniently."""

    def __init__(self, members: Sequence[Form]) -> None:
        self.members = members
        self.expected = " or ".join(dict.fromkeys(member.expected for member in members))

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"anyOf": [member.schema(definitions) for member in self.members]}

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        found: list[Misfits] = []
        for degree in (False, True) if lenient else (False,):
            for form in self.members:
                try:
                    return form.convert(value, at, lenient=degree)
                except Misfits as misfits:
                    found.append(misfits)
        last, here = found[-len(self.members) :], f"{at or 'it'}:"
        deeper = [misfits for misfits in last if not misfits.lines[0].startswith(here)]
        if len(deeper) == 1:
            raise deeper[0]  # the only member of that kind: say what is wrong inside
        refuse(at, self.expected, value)


class Described:
    """A form with words of its own, from `Annotated`."""

    def __init__(self, inner: Form, description: str, extra: dict[str, Any]) -> None:
        self._inner, self._description, self._extra = inner, description, extra
        self.expected = inner.expected

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        made = self._inner.schema(definitions) | self._extra
        return made | ({"description": self._description} if self._description else {})

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        return self._inner.convert(value, at, lenient=lenient)


class Limited:
    """A form with limits, from `Annotated`."""

    def __init__(self, inner: Form, limits: dict[str, Any], able: Sequence[str]) -> None:
        self._inner, self._limits = inner, limits
        self.able = able
        """Names of the limits that such a form can have."""
        said = (LIMITS[name].said.format(limit) for name, limit in limits.items())
        self.expected = " ".join([inner.expected, *said])

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        made = self._inner.schema(definitions)
        things = {"array": "Items", "object": "Properties"}.get(made.get("type", ""), "Length")
        for name, limit in self._limits.items():
            if name in LENGTH:
                made[LIMITS[name].keyword + things] = limit
            elif name == "pattern" or made.get("type") in ("integer", "number"):
                made[LIMITS[name].keyword] = limit
        return made

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        made = self._inner.convert(value, at, lenient=lenient)
        if not all(LIMITS[name].holds(made, limit) for name, limit in self._limits.items()):
            refuse(at, self.expected, value)
        return made


class Named:
    """A form with a name of its own: what a recursive alias refers to."""

    def __init__(self, name: str, form: Form) -> None:
        self._name, self._form = name, form
        self.expected = form.expected

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.refer(self, self._name, self._form.schema)

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        return self._form.convert(value, at, lenient=lenient)


class Later:
    """Stands for a form while that is being made: what a recursive type holds of itself."""

    expected = "a value of the same kind"

    def __init__(self) -> None:
        self.form: Form = Anything()

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return self.form.schema(definitions)

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        return self.form.convert(value, at, lenient=lenient)


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
        what: str = "key",
    ) -> None:
        self.name, self.fields = name, list(fields)
        self._make, self._description, self._tag = make, description, tag
        self._positional, self._what = positional, what
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

    def convert(self, value: Any, at: str, *, lenient: bool = True) -> Any:
        value = opened(value, lenient)
        if self._positional and isinstance(value, list) and len(value) <= len(self.fields):
            value = dict(zip(self._by_key, value, strict=False))
        if not isinstance(value, dict):
            refuse(at, self.expected, value)
        made = self._make_fields(self._untagged(value, at), at, lenient)
        try:
            return self._make(made)
        except Exception as error:  # the class's own checks, of any kind
            raise Misfits([f"{at or 'it'}: {error or type(error).__name__}"]) from error

    def _untagged(self, value: dict[str, Any], at: str) -> dict[str, Any]:
        if self._tag is None:
            return value
        key, tag = self._tag
        if value.get(key) != tag:
            refuse(at, f"{self.expected} whose {key} is {shown(tag)}", value)
        return {name: part for name, part in value.items() if name != key}

    def _make_fields(self, value: dict[str, Any], at: str, lenient: bool) -> dict[str, Any]:
        gathering = Gathering()
        for key in value:
            if key not in self._by_key:
                gathering.lines.append(self._unknown(key, at))
        made = {}
        for field in self.fields:
            place = member(at, field.key)
            if field.key in value:
                made[field.name] = gathering.convert(field.form, value[field.key], place, lenient)
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


def member(at: str, name: str) -> str:
    if not name.isidentifier():
        return f"{at}[{shown(name)}]"
    return f"{at}.{name}" if at else name


def opened(value: Any, lenient: bool) -> Any:
    """A list or object that was given as its JSON text."""
    if lenient and isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with contextlib.suppress(NotJson):
            return read_json(value)
    return value


_JSON_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def schema_of(form: Form) -> dict[str, Any]:
    """The JSON schema of a form, whole: the top is never a reference."""
    definitions = Definitions()
    return definitions.finish(form.schema(definitions))
