"""A function's author arguments: what is recorded, put into the prompt and bound from the command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from segue.errors import DefinitionError
from segue.events.json_values import to_json

INJECTED = "runtime"
"""The parameter that is filled in, and is no part of schema, prompt or digest."""

_REFUSED = {
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
    inspect.Parameter.VAR_POSITIONAL: "collects positional arguments",
    inspect.Parameter.VAR_KEYWORD: "collects keyword arguments",
}


class Signature:
    """Of one function, checked when it is declared.

    Raises `DefinitionError` naming the parameter for what has no place in a JSON object of arguments.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self.inspected = inspect.signature(function)
        for parameter in self.inspected.parameters.values():
            if parameter.kind in _REFUSED:
                raise DefinitionError(
                    f"{name}: parameter {parameter.name!r} {_REFUSED[parameter.kind]}; give every argument a name"
                )
        self.takes_runtime = INJECTED in self.inspected.parameters
        self._first = next(iter(self.inspected.parameters), "")

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Parameter name -> resolved annotation. Raises `DefinitionError` naming one that does not resolve."""
        try:
            return get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise DefinitionError(
                f"{self._function.__qualname__}: an annotation does not resolve: {error}"
            ) from error

    def parameters(self, *, bound_method: bool = False) -> dict[str, inspect.Parameter]:
        """The author's parameters, without `runtime` and, for a method, without `self`."""
        return {
            name: parameter
            for name, parameter in self.inspected.parameters.items()
            if name != INJECTED and not (bound_method and name == self._first)
        }

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Like a call would, defaults filled in. Raises TypeError as a call would."""
        bound = self.inspected.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def arguments(self, bound: inspect.BoundArguments, *, bound_method: bool) -> dict[str, Any]:
        """The author's arguments as one JSON object, in the order of the signature."""
        skipped = {INJECTED, self._first} if bound_method else {INJECTED}
        return {name: to_json(value) for name, value in bound.arguments.items() if name not in skipped}


def asked(arguments: dict[str, Any]) -> Any:
    """What the conversation says a root call was asked: its one text argument as it is, else all arguments."""
    if len(arguments) == 1:
        (only,) = arguments.values()
        if isinstance(only, str):
            return only
    return arguments
