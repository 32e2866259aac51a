"""What a turn may spend, and its session."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from segue.errors import UsageError

Limit = Literal["seconds", "model_calls", "tokens", "cost"]
Scope = Literal["turn", "session"]
LIMITS: tuple[Limit, ...] = ("seconds", "model_calls", "tokens", "cost")
WHOLE: tuple[Limit, ...] = ("model_calls", "tokens")


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a turn may spend. None is no limit.

    A call that would begin when a limit is reached does not begin, and the turn ends as failed. Nobody knows what a
    call needs before it has ended: the last one, and those that run beside it, may go beyond. Raises `UsageError` for a
    limit that is none.
    """

    seconds: float | None = None
    """Wall time while the turn runs: from each attempt's first row to its end. Waiting for people is none."""
    model_calls: int | None = None
    """Requests to models; one that is repeated after a failure is the same, an answer from the record is none."""
    tokens: int | None = None
    """Of input and output together."""
    cost: float | None = None
    """US dollars."""
    session: Budget | None = None
    """The same for all turns of the session together, this one included."""

    def __post_init__(self) -> None:
        for limit in LIMITS:
            allowed = getattr(self, limit)
            whole = limit in WHOLE
            if allowed is not None and not _is_amount(allowed, whole=whole):
                raise UsageError(f"Budget({limit}={allowed!r}): a {'whole ' * whole}number above 0 is needed")
        if self.session is not None and self.session.session is not None:
            raise UsageError("Budget(session=...): the session's budget has none of its own")

    def within(self, other: Budget | None) -> Budget:
        """The smaller limit of each kind."""
        if other is None:
            return self
        limits = {limit: _smaller(getattr(self, limit), getattr(other, limit)) for limit in LIMITS}
        session = other.session if self.session is None else self.session.within(other.session)
        return Budget(**limits, session=session)

    def recorded(self) -> dict[str, Any]:
        """As rows have it; `from_record` reads that."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    @classmethod
    def from_record(cls, recorded: dict[str, Any] | None) -> Budget | None:
        """Raises `UsageError` for what is no budget: it would hold nobody back."""
        if recorded is None:
            return None
        try:
            return msgspec.convert(recorded, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"the budget in the record cannot be read ({error}): give one") from error


def _is_amount(value: Any, *, whole: bool) -> bool:
    if type(value) is not int and (whole or type(value) is not float):
        return False
    return 0 < value < math.inf


def _smaller(one: Any, other: Any) -> Any:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given, default=None)
