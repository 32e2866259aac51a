"""Forms: what a JSON value must look like to become a value of some type, and the JSON schema that says so.

`segue.typed.build.form_of` makes them of annotations. Each form says in words what it expects, so that a model can
correct what it wrote.

Conversion knows two degrees. Exact: the JSON value is what the schema says. Lenient: it is something else of which
the meaning is certain, as models write it: `"5"` or `5.0` for an integer, `"true"` for a boolean, an integer for
text, a list or object as its JSON text.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from segue.events.json_values import to_json
from segue.typed.described import LENGTH, LIMITS
from segue.typed.schemas import Definitions
from segue.typed.strict_json import NotJson, read_json

LONGEST_SHOWN = 80
"""Characters shown of a value that does not fit."""


class Indescribable(Exception):
    """A type has no form in JSON: the text names it and says what to use."""


class Misfits(Exception):
    """Everything in a value that is not of its form, one line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class How:
    """One conversion: its degree, and what is known already of the values in it."""

    def __init__(
        self, *, lenient: bool = True, recorded: bool = True, seen: dict[Any, Any] | None = None
    ) -> None:
        self.lenient = lenient
        self.recorded = recorded
        """Whether what Segue's own encoder writes is taken, where the schema has another form of it."""
        self.seen = {} if seen is None else seen
        """What each union made of each list and object: without it, unions in unions take exponential time."""

    def exact(self) -> How:
        return How(lenient=False, recorded=self.recorded, seen=self.seen)


class Form(Protocol):
    expected: str
    """What is expected, as it stands in a sentence: `an integer`."""

    def schema(self, definitions: Definitions) -> dict[str, Any]: ...

    def convert(self, value: Any, at: str, how: How) -> Any:
        """The value of a JSON value that stands at `at`. Raises `Misfits`."""
        ...


def converted(form: Form, value: Any, at: str = "", *, lenient: bool = True) -> Any:
    """The value of a JSON value. Raises `Misfits`, and nothing else."""
    try:
        return form.convert(value, at, How(lenient=lenient))
    except RecursionError as error:
        raise misfit(at, "it is nested too deep") from error


def refuse(at: str, expected: str, value: Any) -> NoReturn:
    raise misfit(at, f"expected {expected}, got {shown(value)}")


def misfit(at: str, problem: str) -> Misfits:
    return Misfits([f"{at or 'it'}: {problem}"])


def misfit_of(at: str, error: Exception) -> Misfits:
    """What a class of the author's said against a value."""
    said = to_json(error)
    return misfit(at, said["message"] or said["type"])


def shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text):,} characters)"


class Gathering:
    """Goes on after what does not fit, so that one answer names all of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def convert(self, form: Form, value: Any, at: str, how: How) -> Any:
        try:
            return form.convert(value, at, how)
        except Misfits as misfits:
            self.lines += misfits.lines

    def finish(self) -> None:
        if self.lines:
            raise Misfits(self.lines)


class Anything:
    expected = "any JSON value"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {}

    def convert(self, value: Any, at: str, how: How) -> Any:
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

    def convert(self, value: Any, at: str, how: How) -> Any:
        for image, member in self._members:
            if type(image) is type(value) and image == value:
                return member
        if how.lenient and isinstance(value, str):
            for image, member in self._members:
                if not isinstance(image, str) and json.dumps(image) == value.strip():
                    return member
        if how.lenient and isinstance(value, float) and value.is_integer():
            return self.convert(int(value), at, how.exact())
        refuse(at, self.expected, value)


class Union:
    """The first member that fits exactly, else the first that fits leniently."""

    def __init__(self, members: Sequence[Form]) -> None:
        self.members = members
        self.expected = " or ".join(dict.fromkeys(member.expected for member in members))

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"anyOf": [member.schema(definitions) for member in self.members]}

    def convert(self, value: Any, at: str, how: How) -> Any:
        if not isinstance(value, (list, dict)):  # other values may be one object in many places
            return self._first(value, at, how)
        key = (id(self), id(value), how.lenient)
        if key not in how.seen:
            try:
                how.seen[key] = (value, self._first(value, at, how), None)
            except Misfits as misfits:
                how.seen[key] = (value, None, misfits)
        _, made, problem = how.seen[key]  # the value is kept: another one cannot get its id
        if problem is not None:
            raise problem
        return made

    def _first(self, value: Any, at: str, how: How) -> Any:
        found: list[Misfits] = []
        for degree in (how.exact(), how) if how.lenient else (how,):
            found.clear()
            for form in self.members:
                try:
                    return form.convert(value, at, degree)
                except Misfits as misfits:
                    found.append(misfits)
        here = f"{at or 'it'}:"
        deeper = [misfits for misfits in found if not misfits.lines[0].startswith(here)]
        if len(deeper) == 1:
            raise deeper[0]  # the only member of that kind: say what is wrong inside
        refuse(at, self.expected, value)


class Described:
    """A form with words of its own, from `Annotated`."""

    def __init__(self, inner: Form, description: str, extra: dict[str, Any]) -> None:
        self.inner, self._description, self._extra = inner, description, extra
        self.expected = inner.expected

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        made = self.inner.schema(definitions) | self._extra
        return made | ({"description": self._description} if self._description else {})

    def convert(self, value: Any, at: str, how: How) -> Any:
        return self.inner.convert(value, at, how)


class Limited:
    """A form with limits, from `Annotated`."""

    def __init__(self, inner: Form, limits: dict[str, Any]) -> None:
        self.inner, self._limits = inner, limits
        said = (LIMITS[name].said.format(limit) for name, limit in limits.items())
        self.expected = f"{inner.expected} {' and '.join(said)}"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        made = self.inner.schema(definitions)
        things = {"array": "Items", "object": "Properties"}.get(made.get("type", ""), "Length")
        for name, limit in self._limits.items():
            if name in LENGTH:
                made[LIMITS[name].keyword + things] = limit
            elif name == "pattern" or made.get("type") in ("integer", "number"):
                made[LIMITS[name].keyword] = limit
        return made

    def convert(self, value: Any, at: str, how: How) -> Any:
        made = self.inner.convert(value, at, how)
        if not all(LIMITS[name].holds(made, limit) for name, limit in self._limits.items()):
            refuse(at, self.expected, value)
        return made


class Named:
    """A form with a name of its own: what a recursive alias refers to."""

    def __init__(self, name: str, form: Form) -> None:
        self._name, self.inner = name, form
        self.expected = form.expected

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.refer(self, self._name, self.inner.schema)

    def convert(self, value: Any, at: str, how: How) -> Any:
        return self.inner.convert(value, at, how)


class Later:
    """Stands for a form while that is being made: what a recursive type holds of itself."""

    expected = "a value of the same kind"

    def __init__(self) -> None:
        self.form: Form = Anything()

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return self.form.schema(definitions)

    def convert(self, value: Any, at: str, how: How) -> Any:
        return self.form.convert(value, at, how)


def member(at: str, name: str) -> str:
    if not name.isidentifier() or len(name) > LONGEST_SHOWN:
        return f"{at}[{shown(name)}]"
    return f"{at}.{name}" if at else name


def opened(value: Any, how: How) -> Any:
    """A list or object that was given as its JSON text."""
    if how.lenient and isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
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
