"""What kind of callable a tool is made of."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from segue.errors import DefinitionError
from segue.typed.annotations import function_of


def naming(function: Any) -> Any:
    """What has the name: the function in a partial; of an object with `__call__`, its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def doc_of(holder: Any) -> str | None:
    """The docstring of what `naming` gives; for a class that of its `__call__`, or its own."""
    if isinstance(holder, type):
        return getattr(holder.__call__, "__doc__", None) or holder.__doc__
    return inspect.getdoc(holder)


def is_async(function: Any) -> bool:
    """Whether a call gives something to await."""
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 the method itself is looked at
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(called)
        or getattr(function, "is_async", False) is True
    )


def is_unbound(function: Any) -> bool:
    """A function in a class body that takes its instance first."""
    plain = function_of(function)
    if plain is None or isinstance(function, types.MethodType):
        return False
    around = plain.__qualname__.rpartition(".")[0]
    if not around or around.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def fixed_arguments(function: Any, origin: str) -> dict[str, Any]:
    """The arguments that a partial fills in, by parameter."""
    if not isinstance(function, functools.partial):
        return {}
    inner = fixed_arguments(function.func, origin)
    try:
        bound = inspect.signature(function.func).bind_partial(*function.args, **function.keywords)
    except TypeError as error:
        raise DefinitionError(f"{origin}: the partial does not fit its function: {error}") from error
    return {**inner, **bound.arguments}
