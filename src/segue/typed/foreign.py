"""Forms of types that another library converts by its own rules."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from segue.typed.annotations import Unresolved
from segue.typed.forms import Form, How, Indescribable, misfit_of
from segue.typed.schemas import Definitions


def pydantic_form(annotation: Any) -> Form:
    """What pydantic declares, pydantic validates. It is imported only here: whoever has such a type has it already."""
    made: Form = importlib.import_module("segue.typed.pydantic_form").PydanticForm(annotation)
    return made


def msgspec_form(annotation: Any, name: str) -> Form:
    """An attrs class, or a Struct that is an array."""
    try:
        (_,), _ = msgspec.json.schema_components((annotation,))
    except NameError as error:
        raise Unresolved(f"an annotation in {name} does not resolve: {error}") from error
    except TypeError as error:
        raise Indescribable(
            f"{name} has no form in JSON: use a dataclass, a TypedDict, a NamedTuple, a msgspec Struct or a pydantic"
            " model"
        ) from error
    return _MsgspecForm(annotation, name)


class _MsgspecForm:
    def __init__(self, annotation: Any, name: str) -> None:
        self._annotation, self._name = annotation, name
        self.expected = f"a {name}"

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.adopt(msgspec.json.schema(self._annotation), self)

    def convert(self, value: Any, at: str, how: How) -> Any:
        try:
            return msgspec.convert(value, self._annotation)
        except msgspec.ValidationError as error:
            raise misfit_of(at, error) from error
