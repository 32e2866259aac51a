"""A callable's author parameters: what is recorded, put into the prompt, and given by a model or a command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from segue.errors import DefinitionError
from segue.events.json_values import to_json
from segue.typed.annotations import Scope, Unresolved, scope_of
from segue.typed.build import Forms, json_default
from segue.typed.docstrings import Documented
from segue.typed.forms import Anything, Form, Indescribable, Misfits, Union, converted
from segue.typed.records import Field, Record
from segue.typed.scalars import SCALARS

INJECTED = "runtime"
"""The parameter that is filled in, and is no part of schema, prompt or digest."""

_REFUSED = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "collects positional arguments",
    inspect.Parameter.VAR_KEYWORD: "collects keyword arguments",
}


class Signature:
    """Of one callable, checked when it is declared.

    Raises `DefinitionError` naming the parameter for what has no place in a JSON object of arguments.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        try:
            self.inspected = inspect.signature(function)
        except (ValueError, TypeError) as error:
            raise DefinitionError(
                f"{name}: its parameters are not known: {error}; wrap it in a function"
            ) from error
        for parameter in self.inspected.parameters.values():
            if parameter.kind in _REFUSED:
                raise DefinitionError(
                    f"{name}: parameter {parameter.name!r} {_REFUSED[parameter.kind]}; give every argument a name"
                )
        self.takes_runtime = INJECTED in self.inspected.parameters
        self._first = next(iter(self.inspected.parameters), "")

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Like a call would, defaults filled in. Raises TypeError as a call would."""
        bound = self.inspected.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def arguments(self, bound: inspect.BoundArguments, *, bound_method: bool) -> dict[str, Any]:
        """The author's arguments as one JSON object, in the order of the signature."""
        skipped = {INJECTED, self._first} if bound_method else {INJECTED}
        return {name: to_json(value) for name, value in bound.arguments.items() if name not in skipped}

    def of_method(self) -> inspect.Signature:
        """Without its first parameter, which the instance fills."""
        _, *rest = self.inspected.parameters.values()
        return self.inspected.replace(parameters=rest)

    def record(self, doc: Documented, *, without: Collection[str]) -> Record:
        """The form of a JSON object of arguments for the parameters that are not in `without`.

        Raises `Unresolved` for an annotation that names what is not there, `DefinitionError` for one that has no form.
        """
        forms, scope = Forms(), scope_of(self._function)
        fields = [
            self._field(parameter, doc.parameters.get(name, ""), forms, scope)
            for name, parameter in self.inspected.parameters.items()
            if name not in without
        ]
        return Record("arguments", fields, lambda values: values, what="parameter")

    def _field(self, parameter: inspect.Parameter, said: str, forms: Forms, scope: Scope) -> Field:
        name, default = parameter.name, parameter.default
        try:
            form = forms.form(parameter.annotation, scope)
            if default is None and not _takes_null(form):
                form = Union([form, SCALARS[type(None)]])
        except Unresolved as error:
            raise Unresolved(f"{self._name}: parameter {name!r}: {error}") from error
        except Indescribable as error:
            raise DefinitionError(f"{self._name}: parameter {name!r}: {error}") from error
        except RecursionError as error:
            raise DefinitionError(f"{self._name}: parameter {name!r} is nested without end") from error
        if default is inspect.Parameter.empty:
            return Field(name, name, form, True, said)
        if type(default).__name__ == "FieldInfo":
            raise DefinitionError(
                f"{self._name}: the default of {name!r} is a pydantic Field: write {name}: Annotated[..., Field(...)],"
                " and the default itself after it"
            )
        return Field(name, name, form, False, said, json_default(form, default))


def returned_form(function: Callable[..., Any]) -> Form | None:
    """The form of a callable's return annotation; None when it has none, or one that says nothing of the value."""
    try:
        annotation = inspect.signature(function).return_annotation
        if annotation is inspect.Signature.empty:
            return None
        form = Forms().form(annotation, scope_of(function))
    except (ValueError, TypeError, Unresolved, Indescribable):
        return None
    return None if isinstance(form, Anything) else form


def _takes_null(form: Form) -> bool:
    try:
        converted(form, None, lenient=False)
    except Misfits:
        return False
    return True
