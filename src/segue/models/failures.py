"""What a provider's failure means, in Segue's errors: shared by the adapters of HTTP providers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from segue.errors import (
    BadModelRequest,
    ContextTooLong,
    ModelAuthError,
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
)

T = TypeVar("T")

TOO_LONG = re.compile(
    r"context[ _]?(length|window|size)|(prompt|input) is too long|too many (input )?tokens|maximum.{0,20}tokens",
    re.IGNORECASE,
)
"""How providers and servers say it; only looked for in answers 400, 413 and 422."""

OUT_OF_QUOTA = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}
"""Codes that come with 429 or 402, but which no waiting cures."""


def failure_of(
    status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None
) -> ModelError:
    """The error for an HTTP answer of this status. `code` is the provider's own word, where it gives one."""
    said = f"{message} (HTTP {status})"
    if status in {401, 402, 403} or code in OUT_OF_QUOTA:
        return ModelAuthError(said)
    pause = retry_after(headers or {})
    if status == 429:
        return ModelRateLimited(said, retry_after=pause)
    if status in {408, 409, 425} or status >= 500:
        return ModelUnavailable(said, retry_after=pause)
    if code == "context_length_exceeded" or (status in {400, 413, 422} and TOO_LONG.search(message)):
        return ContextTooLong(said)
    return BadModelRequest(said)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `Retry-After` (seconds, or a date as RFC 9110 has it), or
    None.

    A date is taken relative to the answer's own `Date`, so that a clock that is off does no harm, else to
    `now`.
    """
    given = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(given.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = given.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until = _date(value)
    if until is None:
        return None
    since = _date(given.get("date", "")) or now or datetime.now(UTC)
    return max(0.0, (until - since).total_seconds())


async def timed(source: AsyncIterator[T], timeout: float | None) -> AsyncIterator[T]:
    """The items of `source`, all of which must come within `timeout` seconds, else `ModelTimeout`.

    Closing this closes `source` at once, whatever it is waiting for.
    """
    deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
    async with aclosing(_closable(source)) as items:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    item = await anext(items)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise ModelTimeout(f"no complete reply within {timeout:g} s") from error
            yield item


def _closable(source: AsyncIterator[T]) -> Any:
    """Async generators are; their annotation as iterators does not say so."""
    return source


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else None


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
