"""Classes with named parts: dataclasses, TypedDicts, NamedTuples and msgspec Structs, as one description."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from segue.typed.annotations import Scope


class Part(msgspec.Struct, frozen=True):
    name: str
    key: str
    """In JSON."""
    annotation: Any
    required: bool
    default: Any = msgspec.UNSET


class Parts(msgspec.Struct, frozen=True):
    parts: list[Part]
    make: Callable[[dict[str, Any]], Any]
    tag: tuple[str, Any] | None = None
    positional: bool = False
    """Segue's own encoder writes a list of the values in order."""
    derived: frozenset[str] = frozenset()
    """Keys that the class fills in itself: Segue's own encoder writes them, nobody reads them."""


def parts_of(cls: type, scope: Scope) -> Parts | None:
    """None for a class that is none of these. Raises `Unresolved`."""
    if issubclass(cls, dict) and hasattr(cls, "__required_keys__"):  # that of typing, or of typing_extensions
        return _typed_dict(cls, scope)
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls, scope)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(cls, scope)
    if issubclass(cls, msgspec.Struct) and not cls.__struct_config__.array_like:
        return _struct(cls, scope)
    return None


def _typed_dict(cls: Any, scope: Scope) -> Parts:
    parts = []
    for name, annotation in scope.hints(cls).items():
        required = name in cls.__required_keys__
        while (word := qualifier(annotation)) in ("Required", "NotRequired", "ReadOnly"):
            required = required if word == "ReadOnly" else word == "Required"
            (annotation,) = typing.get_args(annotation)
        parts.append(Part(name, name, annotation, required))
    return Parts(parts, dict)


def qualifier(annotation: Any) -> str:
    """The name of what stands around a type: `Required`, `Final`; of typing or of typing_extensions."""
    return str(getattr(typing.get_origin(annotation), "_name", ""))


def _dataclass(cls: Any, scope: Scope) -> Parts:
    hints = scope.hints(cls)
    parts, derived = [], frozenset(field.name for field in dataclasses.fields(cls) if not field.init)
    for name, field in cls.__dataclass_fields__.items():
        annotation = hints[name]
        if name in derived or typing.ClassVar in (annotation, typing.get_origin(annotation)):
            continue
        if isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        default = msgspec.UNSET if field.default is dataclasses.MISSING else field.default
        required = default is msgspec.UNSET and field.default_factory is dataclasses.MISSING
        parts.append(Part(name, name, annotation, required, default))
    return Parts(parts, lambda values: cls(**values), derived=derived)


def _named_tuple(cls: Any, scope: Scope) -> Parts:
    hints, defaults = scope.hints(cls), cls._field_defaults
    parts = [
        Part(name, name, hints.get(name, Any), name not in defaults, defaults.get(name, msgspec.UNSET))
        for name in cls._fields
    ]
    return Parts(parts, lambda values: cls(**values), positional=True)


def _struct(cls: Any, scope: Scope) -> Parts:
    hints, names = scope.hints(cls), cls.__struct_fields__
    defaults = (msgspec.NODEFAULT,) * (len(names) - len(cls.__struct_defaults__)) + cls.__struct_defaults__
    parts = [
        Part(name, key, hints[name], default is msgspec.NODEFAULT, _plain(default))
        for name, key, default in zip(names, cls.__struct_encode_fields__, defaults, strict=True)
    ]
    config = cls.__struct_config__
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return Parts(parts, lambda values: cls(**values), tag)


def _plain(default: Any) -> Any:
    """A default that is a value, not the absence or the factory of one."""
    return msgspec.UNSET if type(default).__module__.startswith("msgspec") else default


def constructor_problem(cls: Any, parts: Parts) -> str:
    """Why the class cannot be made from its parts: it may have a constructor of the author's. Empty if it can."""
    if inspect.isabstract(cls):
        return "is abstract: use a class that can be made"
    if parts.make is dict:
        return ""
    try:
        inspect.signature(cls).bind(**{part.name: None for part in parts.parts})
    except TypeError as error:
        return f"cannot be made from its fields: {error}"
    return ""


def own_doc(cls: type) -> object:
    """Not what was inherited, or made by dataclass and NamedTuple."""
    doc = cls.__dict__.get("__doc__")
    made = (f"{cls.__name__}(", "An enumeration.")
    return "" if isinstance(doc, str) and doc.startswith(made) else doc
