"""Times on the command line: `7d`, `2026-11-30`, `2026-11-30T08:15`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType[str]):
    """A moment in the past, as RFC 3339 in UTC; a date or time without a zone is meant in UTC, as shown."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        age = _AGE.fullmatch(value.strip())
        try:
            if age is not None:
                moment = datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
            else:
                moment = datetime.fromisoformat(value.strip())
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time: say 30m, 12h, 7d, 2w, 2026-11-30 or 2026-11-30T08:15", param, ctx
            )
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
