"""The options of a tool, checked when it is declared."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from segue.errors import DefinitionError
from segue.tools.callables import is_async

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    """What the model calls it; None is the function's name."""
    description: str | None = None
    """What the model is told it does; None is the docstring, without what that says of parameters."""
    needs_approval: bool | Callable[[dict[str, Any]], object] = False
    """Whether a call needs an approval, or what decides that on the call's arguments."""
    idempotent: bool = False
    """Whether running it twice with the same arguments does no more than running it once."""
    timeout: float | None = None
    """Seconds that one run may take."""


def options_of(**given: Any) -> Options:
    """Raises `DefinitionError` for an unknown option or a value that is not one."""
    try:
        chosen = Options(**given)
    except TypeError as error:
        names = ", ".join(Options.__struct_fields__)
        raise DefinitionError(f"tool takes {names}: {error}") from error
    for name in ("name", "description"):
        if not isinstance(given.get(name), str | None):
            raise DefinitionError(f"{name}={given[name]!r} is not text")
    if not isinstance(chosen.needs_approval, bool) and not callable(chosen.needs_approval):
        raise DefinitionError(
            f"needs_approval={chosen.needs_approval!r} is neither a bool nor a function of the arguments"
        )
    if is_async(chosen.needs_approval):
        raise DefinitionError("needs_approval is a coroutine function: make it a plain one")
    if not isinstance(chosen.idempotent, bool):
        raise DefinitionError(f"idempotent={chosen.idempotent!r} is not a bool")
    seconds = chosen.timeout
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        raise DefinitionError(f"timeout={seconds!r} is not a number of seconds over 0")
    return chosen


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def checked_name(name: str, origin: str) -> str:
    if not is_name(name):
        raise DefinitionError(
            f"{origin}: {name!r} cannot be a tool's name: providers take 1 to 64 of A-Z a-z 0-9 _ -. Declare it with"
            " tool(function, name=...)"
        )
    return name
