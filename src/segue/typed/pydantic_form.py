"""Forms of pydantic's models and of what else only pydantic understands, such as validators in `Annotated`."""

from __future__ import annotations

import contextlib
from typing import Any

import pydantic

from segue.typed.annotations import Unresolved
from segue.typed.forms import How, Indescribable, Misfits, member, misfit_of, opened, shown
from segue.typed.schemas import Definitions


class PydanticForm:
    def __init__(self, annotation: Any) -> None:
        self._name = getattr(annotation, "__name__", "value")
        self.expected = f"a {self._name}"
        try:
            self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(annotation)
            self._schema = self._adapter.json_schema()
        except NameError as error:
            raise Unresolved(
                f"an annotation in {self._name} does not resolve: {_first_line(error)}"
            ) from error
        except (pydantic.PydanticUserError, TypeError) as error:
            raise Indescribable(f"pydantic cannot describe {self._name}: {_first_line(error)}") from error

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return definitions.adopt(self._schema, self)

    def convert(self, value: Any, at: str, how: How) -> Any:
        inner = opened(value, how)
        if inner is not value:  # text that is the JSON of an object, unless the type takes it as text
            with contextlib.suppress(Misfits):
                return self.convert(value, at, how.exact())
        try:
            return self._adapter.validate_python(inner)
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
            raise Misfits(
                [_line(at, problem["loc"], problem["msg"], problem["input"]) for problem in found]
            ) from error
        except Exception as error:  # a validator of the model's own
            raise misfit_of(at, error) from error


def _line(at: str, place: tuple[Any, ...], message: str, got: Any) -> str:
    for part in place:
        at = f"{at}[{part}]" if isinstance(part, int) else member(at, part)
    return f"{at or 'it'}: {message}, got {shown(got)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
