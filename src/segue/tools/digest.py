"""What a grant and a rule are bound to: digests of a call, and of the code that decides on one."""

from __future__ import annotations

import hashlib
import types
from typing import Any

from segue.events.codec import encode_json
from segue.tools.callables import naming
from segue.typed.annotations import function_of


def digest_of(name: str, arguments: Any) -> str:
    """SHA-256, hexadecimal, of the JSON of name and arguments (a JSON value), keys sorted at every depth."""
    return hashlib.sha256(encode_json([name, in_order(arguments)])).hexdigest()


def in_order(value: Any) -> Any:
    """A JSON value with the keys of its objects sorted."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def function_marks(function: Any) -> list[Any]:
    """A function's name and compiled code, as JSON: other code, other marks. What it reads elsewhere is not seen."""
    holder, plain = naming(function), function_of(function)
    code = getattr(plain, "__code__", None)
    return [holder.__module__, holder.__qualname__, None if code is None else _code(code)]


def _code(code: types.CodeType) -> list[Any]:
    return [code.co_code.hex(), list(code.co_names), [_constant(value) for value in code.co_consts]]


def _constant(value: Any) -> Any:
    """A set of constants has another order in each process."""
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, frozenset):
        return sorted(repr(item) for item in value)
    return repr(value)
