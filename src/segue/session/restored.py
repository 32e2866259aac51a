"""Results and failures of recorded calls, as the values they were."""

from __future__ import annotations

import builtins
from typing import Any

from segue import errors
from segue.events.json_values import to_json


class RecordedError(Exception):
    """A failure that the record has, of a class that cannot be made again here. `type` is the name of that class."""

    def __init__(self, message: str, *, type: str) -> None:
        super().__init__(message)
        self.type = type


NO_RESULT = object()
"""Says that a recorded result is not to be had as a value."""


def restored(recorded: Any, returned: Any) -> Any:
    """A recorded JSON value as a value of the return annotation; `NO_RESULT` unless that gives the same JSON again."""
    if returned is Any:
        return NO_RESULT
    try:
        value = typed.convert(recorded, returned)
        return value if to_json(value) == recorded else NO_RESULT
    except Exception:  # whatever a type's own code raises: then its call has to say the value again
        return NO_RESULT


def raised(error: dict[str, Any]) -> Exception:
    """The exception of a recorded failure: one of ours or Python's own, else `RecordedError`."""
    name, message = str(error.get("type")), str(error.get("message"))
    cls = getattr(errors, name, None) or getattr(builtins, name, None)
    if isinstance(cls, type) and issubclass(cls, Exception):
        try:
            return cls(message)
        except TypeError:
            pass
    return RecordedError(message, type=name)
