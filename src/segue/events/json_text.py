"""JSON text without loss, by hand: what msgspec refuses. Slow, and used only for that.

Kept beyond other libraries: lone surrogates (escaped), integers of up to 10,000 digits whatever limit the
interpreter has, numbers beyond the range of a float (read as the exact integer), and every failure as one of
our errors. The text has the form that `msgspec.json.encode` gives, so that it does not matter who wrote a
row.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, NoReturn

import msgspec

from segue.errors import IntegerTooLarge, InvalidEvent, ValueTooDeep

MAX_DEPTH = 200
"""How many lists and objects may be nested in one value."""
MAX_DIGITS = 10_000
"""Of an integer, without its sign."""

_CHUNK_DIGITS = 600  # below the lowest limit that a process can set for int-to-text conversion (640)
_CHUNK = 10**_CHUNK_DIGITS
_BOUND = 10**MAX_DIGITS
_SURROGATE = re.compile("([\ud800-\udfff])")
_encode = msgspec.json.Encoder().encode


def write(value: Any, *, depth: int = MAX_DEPTH) -> bytes:
    """`value` as strict JSON in UTF-8. Tuples are arrays; subclasses of JSON types are those.

    Raises `InvalidEvent` with the place of what is not JSON, `ValueTooDeep`, `IntegerTooLarge`.
    """
    writer = _Writer()
    try:
        writer.write(value, depth)
    except RecursionError as error:
        raise too_deep() from error
    except InvalidEvent as error:
        raise type(error)(f"{writer.place()}{error}") from error.__cause__
    return b"".join(writer.parts)


def read(data: bytes | str) -> Any:
    """The value of strict JSON text. Raises `InvalidEvent`, `ValueTooDeep`, `IntegerTooLarge`."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8")
        return _DECODER.decode(text)
    except RecursionError as error:
        raise too_deep() from error
    except ValueError as error:  # also UnicodeDecodeError and JSONDecodeError
        raise InvalidEvent(f"this is not JSON: {error}") from error


def integer_text(value: int) -> str:
    """Decimal digits of an integer of any size up to the limit. Raises `IntegerTooLarge`."""
    if not -_BOUND < value < _BOUND:
        raise IntegerTooLarge(
            f"an integer of more than {MAX_DIGITS:,} digits cannot be recorded: pass it as text"
        )
    rest, chunks = abs(value), []
    while rest >= _CHUNK:
        rest, low = divmod(rest, _CHUNK)
        chunks.append(str(low).zfill(_CHUNK_DIGITS))
    return ("-" if value < 0 else "") + "".join([str(rest), *reversed(chunks)])


def whole_characters(text: str) -> str:
    """Surrogates that make a pair, joined to their character: JSON text has no other form of it."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def too_deep() -> ValueTooDeep:
    return ValueTooDeep(f"a value nested more than {MAX_DEPTH} levels deep cannot be recorded: flatten it")


def is_deep(data: bytes) -> bool:
    """Whether text that msgspec can read is nested over the limit. Cheap unless it has as many brackets."""
    if len(data) <= 2 * MAX_DEPTH or data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    return nested_deeper(msgspec.json.decode(data), MAX_DEPTH)


def nested_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects of a JSON value are nested over so many levels."""
    level = [value]
    for _ in range(levels + 1):
        level = [holder for holder in level if type(holder) is dict or type(holder) is list]
        if not level:
            return False
        level = [item for holder in level for item in _items(holder)]
    return True


def _items(holder: Any) -> Any:
    if type(holder) is dict:
        return holder.values()
    return holder if type(holder) is list else ()


class _Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.path: list[str] = []

    def write(self, value: Any, room: int) -> None:
        kind = type(value)
        if value is None or kind is bool:
            self.parts.append(_encode(value))
        elif isinstance(value, str):
            self.parts.append(_string(str.__str__(value)))
        elif isinstance(value, int):
            self.parts.append(integer_text(int.__int__(value)).encode())
        elif isinstance(value, float):
            self._float(float.__float__(value))
        elif isinstance(value, (dict, list, tuple)):
            if room == 0:
                raise too_deep()
            (self._object if isinstance(value, dict) else self._array)(value, room - 1)
        else:
            self._refuse(f"{kind.__name__} is not a JSON value")

    def _float(self, value: float) -> None:
        if not math.isfinite(value):
            self._refuse(f"{value} is not a JSON value")
        self.parts.append(_encode(value))

    def _array(self, items: Any, room: int) -> None:
        self.parts.append(b"[")
        for number, item in enumerate(items):
            self.path.append(f"[{number}]")
            if number:
                self.parts.append(b",")
            self.write(item, room)
            self.path.pop()
        self.parts.append(b"]")

    def _object(self, items: Any, room: int) -> None:
        separator = b"{"
        for key, item in items.items():
            if not isinstance(key, str):
                self._refuse(f"the key {key!r:.100} is not text")
            self.path.append(f".{key}")
            self.parts += (separator, _string(str.__str__(key)), b":")
            self.write(item, room)
            self.path.pop()
            separator = b","
        self.parts.append(b"{}" if separator == b"{" else b"}")

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidEvent(f"{problem}: convert it with segue.events.json_values.to_json first")

    def place(self) -> str:
        """Where writing stopped, `result.rows[3]: `, or nothing at the top."""
        path = "".join(self.path[:6]).lstrip(".") + ("..." if len(self.path) > 6 else "")
        return f"{path}: " if path else ""


def _string(text: str) -> bytes:
    try:
        return _encode(text)
    except UnicodeEncodeError:
        pieces = _SURROGATE.split(whole_characters(text))
        escaped = (
            f"\\u{ord(piece):04x}".encode() if index % 2 else _encode(piece)[1:-1]
            for index, piece in enumerate(pieces)
        )
        return b'"' + b"".join(escaped) + b'"'


def _integer(text: str) -> int:
    digits = text.lstrip("-")
    if len(digits) > MAX_DIGITS:
        raise IntegerTooLarge(f"an integer of {len(digits):,} digits is over the limit of {MAX_DIGITS:,}")
    head = len(digits) % _CHUNK_DIGITS
    value = int(digits[:head] or "0")
    for start in range(head, len(digits), _CHUNK_DIGITS):
        value = value * _CHUNK + int(digits[start : start + _CHUNK_DIGITS])
    return -value if text.startswith("-") else value


def _number(text: str) -> float | int:
    value = float(text)
    if math.isfinite(value):
        return value
    exact = Decimal(text)
    if exact.adjusted() >= MAX_DIGITS:
        raise IntegerTooLarge(f"the number {text[:50]} has more than {MAX_DIGITS:,} digits")
    return _scaled(exact)


def _scaled(number: Decimal) -> int:
    """The integer part. A Decimal's own int() goes through text, which the interpreter limits."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = digits[:exponent] if exponent < 0 else digits
    value: int = _integer("".join(map(str, whole))) * 10 ** max(exponent, 0)
    return -value if sign else value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=_constant)
