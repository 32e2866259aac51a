"""`to_json`: the one conversion of any Python value to a JSON value, for every store and entry point.

| value | becomes |
|---|---|
| None, bool, int, str, finite float | itself |
| NaN, infinities | "NaN", "Infinity", "-Infinity" |
| list, tuple, namedtuple, deque, range | array |
| set, frozenset | array, sorted by the JSON text of its items |
| mapping | object; a key that does not convert to text becomes its JSON text: 1 is "1", True is "true" |
| mapping whose keys then collide | {"$pairs": [[key, value], ...]} |
| dataclass, msgspec Struct, pydantic model | object of its fields |
| datetime, date, time, timedelta | ISO 8601 text |
| Decimal, UUID, Path | text |
| Enum | its value, converted |
| bytes, bytearray, memoryview | {"$bytes": base64 text} |
| exception | {"type": class name, "message": text} |
| a list or mapping inside itself | {"$cycle": levels up to the one it repeats} |
| anything else | its repr without memory addresses, at most 10,000 characters |
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import re
import types
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import Any

import msgspec

from segue.errors import InvalidEvent
from segue.events.codec import encode_json
from segue.events.json_text import MAX_DEPTH, integer_text, is_deep, too_deep, whole_characters

MAX_REPR = 10_000
"""Characters kept of an unknown object's repr."""

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> Any:
    """A JSON value that says what `value` is, sharing nothing with it that could change.

    Never fails because of an object's own methods. Raises `ValueTooDeep` over 200 levels, `IntegerTooLarge`
    over 10,000 digits.
    """
    try:
        data = _encode(value)
        plain = _decode(data)
        if plain == value and not is_deep(data):
            return plain
    except Exception:  # whatever the value's own methods raise: the slow way is guarded
        pass
    try:
        return _Conversion().convert(value)
    except RecursionError as error:
        raise too_deep() from error


def json_or_reason(value: Any) -> Any:
    """`to_json`, or, of a value that cannot be recorded, a text that says why: the caller still has the value."""
    try:
        return to_json(value)
    except InvalidEvent as error:
        return f"<a value of type {type(value).__name__} that could not be recorded: {error}>"


class _Conversion:
    def __init__(self) -> None:
        self.open: list[int] = []
        """Identities of the containers around the current value, the outermost first."""

    def convert(self, value: Any) -> Any:
        for cls in type(value).__mro__:
            leaf = LEAVES.get(cls)
            if leaf is not None:
                return self._guarded(leaf, value)
        parts = _parts_of(value)
        return safe_text(value) if parts is None else self._container(parts, value)

    def _guarded(self, leaf: Callable[[Any], Any], value: Any) -> Any:
        try:
            found = leaf(value)
        except InvalidEvent:
            raise
        except Exception:  # a subclass whose methods are broken
            return safe_text(value)
        return self.convert(found.value) if type(found) is _Again else found

    def _container(self, parts: Callable[[Any], Any], value: Any) -> Any:
        if id(value) in self.open:
            return {"$cycle": len(self.open) - self.open.index(id(value))}
        if len(self.open) == MAX_DEPTH:
            raise too_deep()
        try:
            found = parts(value)
        except Exception:  # a broken mapping or field: say what can be said
            return safe_text(value)
        self.open.append(id(value))
        try:
            return self._object(found) if type(found) is dict else self._array(found, type(value))
        finally:
            self.open.pop()

    def _array(self, items: list[Any], cls: type) -> list[Any]:
        converted = [self.convert(item) for item in items]
        return sorted(converted, key=encode_json) if issubclass(cls, Set) else converted

    def _object(self, items: dict[Any, Any]) -> dict[str, Any]:
        pairs = [(self.convert(key), self.convert(item)) for key, item in items.items()]
        by_name = {_key(key): item for key, item in pairs}
        return by_name if len(by_name) == len(pairs) else {"$pairs": [[key, item] for key, item in pairs]}


class _Again:
    """What a leaf gives when its own content is any value, to be converted in its place."""

    def __init__(self, value: Any) -> None:
        self.value = value


def safe_text(value: Any) -> str:
    """The repr, or the class's name where the repr is broken."""
    name = type.__dict__["__qualname__"].__get__(type(value))  # a metaclass cannot break this
    try:
        text = _ADDRESS.sub("", str.__str__(repr(value)))
    except Exception as error:
        return f"<{name}: its repr raised {type(error).__name__}>"
    kept = text if len(text) <= MAX_REPR else f"{text[:MAX_REPR]}... ({len(text):,} characters)"
    return whole_characters(kept)


def _key(key: Any) -> str:
    return key if type(key) is str else encode_json(key).decode()


def _float(value: float) -> float | str:
    exact = float.__float__(value)
    if math.isnan(exact):
        return "NaN"
    return exact if math.isfinite(exact) else "Infinity" if exact > 0 else "-Infinity"


def _integer(value: int) -> int:
    exact = int.__int__(value)
    if exact.bit_length() > 30_000:  # 9,030 digits: only then is the exact count worth it
        integer_text(exact)
    return exact


def _exception(error: BaseException) -> dict[str, str]:
    try:
        message = str.__str__(str(error))
    except Exception as broken:
        message = f"its text raised {type(broken).__name__}"
    return {"type": type(error).__name__, "message": whole_characters(message)}


def _bytes(value: bytes | bytearray | memoryview) -> dict[str, str]:
    return {"$bytes": base64.b64encode(bytes(value)).decode()}


LEAVES: dict[type, Callable[[Any], Any]] = {
    enum.Enum: lambda value: _Again(value._value_),
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: whole_characters(str.__str__(value)),
    int: _integer,
    float: _float,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: msgspec.to_builtins,
    decimal.Decimal: decimal.Decimal.__str__,
    uuid.UUID: uuid.UUID.__str__,
    pathlib.PurePath: lambda value: whole_characters(str(value)),
    BaseException: _exception,
}
"""By class, looked up along the value's own order of bases: an IntEnum is an Enum's value, a bool no int."""

CONTAINERS: dict[type, Callable[[Any], Any]] = {
    dict: lambda value: dict(dict.items(value)),
    types.MappingProxyType: dict,
    Mapping: lambda value: dict(value.items()),
    list: list,
    tuple: list,
    deque: list,
    range: list,
    set: list,
    frozenset: list,
    Set: list,
    msgspec.Struct: lambda value: _struct(value),
}


def _parts_of(value: Any) -> Callable[[Any], Any] | None:
    """How to get the parts of a container: a dict of them, or a list. None when it is no container."""
    cls = type(value)
    for base in cls.__mro__:
        if base in CONTAINERS:
            return CONTAINERS[base]
    if _declares(cls, "__dataclass_fields__"):
        return _dataclass
    if _declares(cls, "model_dump"):
        return lambda model: dict(model.model_dump(by_alias=True))  # as its JSON schema names them
    return None


def _declares(cls: type, name: str) -> bool:
    """Whether the class has that attribute, without asking the object, which might answer to any name."""
    return any(name in base.__dict__ for base in cls.__mro__)


def _dataclass(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _struct(value: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """Under the names, and with the tag, that msgspec itself would write."""
    config = value.__struct_config__
    parts = {
        name: part
        for name, field in zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        if (part := getattr(value, field)) is not msgspec.UNSET
    }
    tag = {} if config.tag is None else {config.tag_field or "type": config.tag}
    return list((tag | parts).values()) if config.array_like else tag | parts
