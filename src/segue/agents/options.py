"""The options of an agentic function, checked when it is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from segue.errors import DefinitionError

Expose = Literal["io", "llm", "full", "hidden"]
EXPOSE = ("io", "llm", "full", "hidden")
LEVELS = ("callers", "subcalls")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    expose: str = "io"
    """What callers later see of the inside: input and output, the model calls, both with all further in, nothing."""
    callers: int | None = 1
    """How many levels of callers the inside sees; the level above a root call is the conversation. None: all."""
    subcalls: int | None = None
    """How many of its own earlier calls the inside sees, the latest ones. None: all."""


def options(expose: str, render_range: Mapping[str, Any] | None) -> Options:
    """Raises `DefinitionError` for an unknown option or a value that is not one."""
    if expose not in EXPOSE:
        raise DefinitionError(f"expose={expose!r} is none of {', '.join(EXPOSE)}")
    levels = dict(render_range or {})
    for name, value in levels.items():
        if name not in LEVELS:
            raise DefinitionError(f"render_range has no {name!r}: it takes {' and '.join(LEVELS)}")
        if value is not None and (type(value) is not int or value < 0):
            raise DefinitionError(f"render_range[{name!r}]={value!r}: a count from 0 on, or None for all")
    return Options(expose=expose, **levels)
