"""Annotations that are text, evaluated where the code that wrote them would find their names.

That is the module, the classes and functions around the definition as far as they still run, and the variables
that a closure keeps.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_type_hints

import msgspec


class Unresolved(Exception):
    """An annotation names what is not there. The text says which."""


class Scope(msgspec.Struct):
    """Where names are looked up."""

    module: dict[str, Any]
    local: dict[str, Any]
    variables: dict[Any, Any] = {}
    """What the type variables of a generic class stand for."""

    def resolve(self, annotation: Any) -> Any:
        """The annotation without text in it. Raises `Unresolved`."""
        annotations = {"__annotations__": {"it": annotation}}
        holder = type("Holder", (), annotations)  # of a class: it may say ClassVar
        try:
            return get_type_hints(holder, self.module, self.local, include_extras=True)["it"]
        except NameError as error:
            raise _unresolved(annotation, f"{error}; is it imported for type checkers only?") from error
        except RecursionError:  # told by who asks for a type without end
            raise
        except Exception as error:  # the text of an annotation is any code
            raise _unresolved(annotation, f"{type(error).__name__}: {error}") from error

    def inside(self, cls: type, arguments: Sequence[Any] = ()) -> Scope:
        """The scope of a class's own annotations. What is local here is so there only for a class made here."""
        module = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else self.module
        near = module is self.module and "<locals>" in cls.__qualname__
        variables = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
        return Scope(module, {**(self.local if near else {}), cls.__name__: cls}, variables)

    def hints(self, cls: type) -> dict[str, Any]:
        """Annotations of a class and its bases; of these each in its own module. Raises `Unresolved`."""
        return {
            name: self.inside(base).resolve(annotation)
            for base in reversed(cls.__mro__)
            for name, annotation in inspect.get_annotations(base).items()
        }


def function_of(value: Any) -> types.FunctionType | None:
    """The plain function in a callable: of a method, a partial, a wrapper, an object with `__call__`."""
    for _ in range(100):
        if isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__"):
            return value
        value = _inside(value)
    return None


def _inside(value: Any) -> Any:
    if isinstance(value, functools.partial):
        return value.func
    if isinstance(value, types.MethodType):
        return value.__func__
    wrapped = inspect.getattr_static(value, "__wrapped__", None)
    return wrapped if wrapped is not None else inspect.getattr_static(type(value), "__call__", None)


def scope_of(function: Callable[..., Any]) -> Scope:
    plain = function_of(function)
    if plain is None:
        return Scope({}, {})
    local: dict[str, Any] = {}
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    around = set(_around(plain.__qualname__))
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and around:
        if frame.f_globals is plain.__globals__ and frame.f_code.co_qualname in around:
            local = {**frame.f_locals, **local}
        frame = frame.f_back
    return Scope(plain.__globals__, local)


def _around(qualname: str) -> Iterator[str]:
    """Qualified names of the functions and classes around a definition."""
    while "." in qualname:
        qualname = qualname.rpartition(".")[0].removesuffix(".<locals>")
        yield qualname


def _unresolved(annotation: Any, problem: str) -> Unresolved:
    if isinstance(annotation, str):
        return Unresolved(f"the annotation {annotation} does not resolve: {problem}")
    text = getattr(annotation, "__forward_arg__", repr(annotation))
    return Unresolved(f"the annotation {text} does not resolve: {problem}")
