"""Results and failures of recorded calls, as the values they were."""

from __future__ import annotations

import builtins
import contextlib
from typing import Any

from segue import errors
from segue.events.json_values import to_json
from segue.fold.values import copy_json
from segue.typed.forms import Form, converted


class RecordedError(Exception):
    """A failure that the record has, of a class that cannot be made again here. `type` is the name of that class."""

    def __init__(self, message: str, *, type: str) -> None:
        super().__init__(message)
        self.type = type


NO_RESULT = object()
"""Says that a recorded result is not to be had as a value."""


def restored(recorded: Any, form: Form | None) -> Any:
    """A recorded JSON value as a value of the form; `NO_RESULT` unless that gives the same JSON again."""
    if form is None:
        return NO_RESULT
    try:
        value = converted(form, copy_json(recorded), lenient=False)
        return value if to_json(value) == recorded else NO_RESULT
    except Exception:  # whatever a type's own code raises: then its call has to say the value again
        return NO_RESULT


def raised(error: dict[str, Any]) -> Exception:
    """The exception of a recorded failure: one of ours, by its class or its code, or Python's own; else
    `RecordedError`."""
    name, message = str(error.get("type")), str(error.get("message"))
    cls = getattr(errors, name, None) or getattr(builtins, name, None) or errors.by_code(name)
    if isinstance(cls, type) and issubclass(cls, Exception):
        with contextlib.suppress(TypeError):
            return cls(message)
    return RecordedError(message, type=name)
