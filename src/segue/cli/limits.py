"""`--max NAME=VALUE`: what a turn, and its session, may spend, as words of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.errors import UsageError
from segue.session.budget import LIMITS, WHOLE, Budget

HELP = (
    "Stop before more is spent: seconds, model_calls, tokens, cost (US dollars); of the whole session with"
    " `session.` before it, as in session.cost=5."
)


def budget(words: Sequence[str]) -> Budget | None:
    """None without words. Raises `UsageError` for one that is no limit, or that is given twice."""
    turn: dict[str, Any] = {}
    session: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        limits, limit = (
            (session, name.removeprefix("session.")) if name.startswith("session.") else (turn, name)
        )
        if limit not in LIMITS:
            raise UsageError(
                f"--max {word}: the limits are {', '.join(LIMITS)}, each also with `session.` before it"
            )
        if limit in limits:
            raise UsageError(f"--max {word}: {name} is limited twice")
        limits[limit] = _number(word, limit, value)
    if not words:
        return None
    return Budget(**turn, session=Budget(**session) if session else None)


def _number(word: str, limit: str, value: str) -> float:
    try:
        return int(value) if limit in WHOLE else float(value)
    except ValueError:
        kind = "whole number" if limit in WHOLE else "number"
        raise UsageError(f"--max {word}: {value!r} is no {kind}") from None
