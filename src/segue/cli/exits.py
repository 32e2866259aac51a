"""Exit codes, and which one each way of failing gets."""

from __future__ import annotations

from segue import errors

DONE = 0
FAILED = 1
USAGE = 2
SUSPENDED = 3
DENIED = 4
"""The program failed with `ToolDenied`: it did not expect that its call is denied. A model is told, and goes on."""
BUSY = 5
TIME_LIMIT = 124
INTERRUPTED = 130
TERMINATED = 143

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.UsageError, USAGE),
    (errors.InvalidSessionId, USAGE),
    (errors.SessionNotFound, USAGE),
    (errors.SessionBusy, BUSY),
    (errors.ToolDenied, DENIED),
    (errors.Suspended, SUSPENDED),
    (errors.Cancelled, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
)


class TimeLimit(SystemExit):
    """`--timeout` passed. A SystemExit: the turn is interrupted, and can be gone on with."""


class Terminated(SystemExit):
    """SIGTERM came. A SystemExit, as above."""


def exit_code(error: BaseException | None) -> int:
    if isinstance(error, TimeLimit) or (
        isinstance(error, errors.BudgetExceeded) and error.limit == "seconds"
    ):
        return TIME_LIMIT
    if isinstance(error, Terminated):
        return TERMINATED
    if error is None:
        return DONE
    return next((code for cls, code in _CODES if isinstance(error, cls)), FAILED)
