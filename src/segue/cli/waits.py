"""What waits, as people see it: exactly what will run, whole or with what is hidden said."""

from __future__ import annotations

import msgspec

from segue.cli.visible import exact, visible
from segue.events.codec import encode_json
from segue.fold.waits import Wait

MOST = 2_000
"""Characters of a call's arguments, or of a question, that are shown where not all of it was asked for."""


def what(wait: Wait, *, most: int = MOST, see: str = "") -> str:
    """On one line: the call with its arguments, or the question. `see` is the command that shows all."""
    if wait.kind == "question":
        return exact(_cut(wait.name, most, see))
    return called(wait, most=most, see=see)


def called(wait: Wait, *, most: int = MOST, see: str = "") -> str:
    """Arguments are shown as JSON, so that an escape in it is one, and a backslash is two."""
    return f"{exact(wait.name)}({exact(_cut(encode_json(wait.arguments).decode(), most, see))})"


def asked(wait: Wait) -> str:
    """A question whole: its further lines cannot be taken for ours."""
    return "\n  | ".join(visible(line) for line in wait.name.splitlines())


def whole(wait: Wait) -> str:
    """Everything about it, on lines of its own."""
    if wait.kind != "question":
        shown = msgspec.json.format(encode_json(wait.arguments), indent=2).decode()
        return "\n".join([exact(wait.name), *(f"  | {exact(line)}" for line in shown.splitlines())])
    lines = [asked(wait), *(f"  {number}. {exact(option)}" for number, option in enumerate(wait.options, 1))]
    return "\n".join(
        lines + ([f"  its schema: {exact(encode_json(wait.schema).decode())}"] if wait.schema else [])
    )


def _cut(text: str, most: int, see: str) -> str:
    """The beginning and the end, so that nothing at the end goes unseen only because the middle is long."""
    if len(text) <= most:
        return text
    end = most // 4
    hint = f": {see}" if see else ""
    return f"{text[: most - end]} [... {len(text) - most:,} characters are not shown{hint} ...] {text[-end:]}"
