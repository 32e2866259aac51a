"""Types that are one JSON string, number, boolean or null."""

from __future__ import annotations

import datetime
import decimal
import math
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from segue.typed.forms import How, refuse
from segue.typed.schemas import Definitions

_UNFIT = (ValueError, TypeError, ArithmeticError)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 400
"""Characters of a number that is given as text."""


Loosen = Callable[[Any], Any]
"""Another JSON value that certainly means the same, or the value itself."""


class Scalar:
    def __init__(
        self, cls: type, expected: str, schema: dict[str, Any], loosened: Loosen | None = None
    ) -> None:
        self.expected = expected
        self.cls = cls
        self._schema, self._loosened = schema, loosened

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return dict(self._schema)

    def convert(self, value: Any, at: str, how: How) -> Any:
        try:
            return self._exact(_recorded_bytes(value) if how.recorded else value)
        except _UNFIT:
            pass
        if how.lenient and self._loosened is not None:
            try:
                return self._exact(self._loosened(value))
            except _UNFIT:
                pass
        refuse(at, self.expected, value)

    def _exact(self, value: Any) -> Any:
        if issubclass(self.cls, pathlib.PurePath):
            return self.cls(msgspec.convert(value, str))
        made = msgspec.convert(value, self.cls)
        if isinstance(made, decimal.Decimal) and not made.is_finite():
            raise ValueError(value)
        return made


def _recorded_bytes(value: Any) -> Any:
    return value["$bytes"] if isinstance(value, dict) and value.keys() == {"$bytes"} else value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return value


def _float(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value.strip()):
        number = float(value)
        return number if math.isfinite(number) else value
    return value


def _boolean(value: Any) -> Any:
    return (
        {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value
    )


def _null(value: Any) -> Any:
    return None if value == "null" else value


def _text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _datetime(value: Any) -> Any:
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value):
        return datetime.datetime.fromisoformat(value)
    return value


_STRING = {"type": "string"}
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$"

SCALARS: dict[type, Scalar] = {
    form.cls: form
    for form in (
        Scalar(int, "an integer", {"type": "integer"}, _integer),
        Scalar(float, "a number", {"type": "number"}, _float),
        Scalar(str, "text", _STRING, _text),
        Scalar(bool, "true or false", {"type": "boolean"}, _boolean),
        Scalar(type(None), "null", {"type": "null"}, _null),
        Scalar(
            datetime.datetime,
            "a date and time such as 2026-11-30T09:30:00Z",
            _STRING | {"format": "date-time"},
            _datetime,
        ),
        Scalar(datetime.date, "a date such as 2026-11-30", _STRING | {"format": "date"}),
        Scalar(datetime.time, "a time such as 09:30:00", _STRING | {"format": "time"}),
        Scalar(datetime.timedelta, "a duration such as PT1H30M", _STRING | {"format": "duration"}),
        Scalar(uuid.UUID, "a UUID", _STRING | {"format": "uuid"}),
        Scalar(decimal.Decimal, "a decimal number", _STRING | {"pattern": _DECIMAL}, _text),
        Scalar(bytes, "bytes in base64", _STRING | {"contentEncoding": "base64"}),
        Scalar(bytearray, "bytes in base64", _STRING | {"contentEncoding": "base64"}),
        *(
            Scalar(cls, "a path as text", _STRING)
            for cls in (
                pathlib.Path,
                pathlib.PurePath,
                pathlib.PosixPath,
                pathlib.WindowsPath,
                pathlib.PurePosixPath,
                pathlib.PureWindowsPath,
            )
        ),
    )
}
