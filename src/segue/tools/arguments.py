"""A model's argument text, and what it is told about text that does not fit."""

from __future__ import annotations

from typing import Any

from segue.errors import InvalidArguments
from segue.typed.forms import shown
from segue.typed.strict_json import NotJson, read_json

MOST_LISTED = 20
"""Problems that the model is told at once."""


def arguments_of(name: str, text: str) -> dict[str, Any]:
    """The JSON object in the text; empty for empty and blank text and for null. Raises `InvalidArguments`."""
    if not text.strip():
        return {}
    try:
        value = read_json(text)
    except NotJson as error:
        raise misfit(name, [f"they are not the text of one JSON object: {error}"]) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise misfit(name, [f"they are not a JSON object but {shown(value)}"])
    return value


def misfit(name: str, problems: list[str]) -> InvalidArguments:
    listed = "\n".join(f"- {problem}" for problem in problems[:MOST_LISTED])
    if len(problems) > MOST_LISTED:
        listed += f"\n- and {len(problems) - MOST_LISTED:,} more"
    return InvalidArguments(
        f"{name} was not run, because its arguments do not fit:\n{listed}\nCall {name} again with arguments that fit.",
        problems=problems,
    )
