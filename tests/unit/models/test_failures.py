"""What HTTP failures mean, how long to wait, and what `timed` does to a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from segue.errors import (
    BadModelRequest,
    ContextTooLong,
    ModelAuthError,
    ModelError,
    ModelRateLimited,
    ModelTimeout,
    ModelUnavailable,
)
from segue.models.failures import failure_of, retry_after, timed

NOW = datetime(2026, 11, 30, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"Retry-After": "Mon, 30 Nov 2026 10:01:30 GMT"}, 90.0),
        ({"Retry-After": "Mon, 30 Nov 2026 09:00:00 GMT"}, 0.0),
        ({"Retry-After": "Mon, 30 Nov 2026 10:01:30 GMT", "Date": "Mon, 30 Nov 2026 10:01:00 GMT"}, 30.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "nan"}, None),
    ],
)
def test_the_pause_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (401, "no", "", ModelAuthError),
        (402, "pay", "", ModelAuthError),
        (403, "no", "", ModelAuthError),
        (429, "slow", "rate_limit_exceeded", ModelRateLimited),
        (429, "no money", "insufficient_quota", ModelAuthError),
        (400, "x", "context_length_exceeded", ContextTooLong),
        (400, "This model's maximum context length is 8192 tokens.", "", ContextTooLong),
        (400, "prompt is too long: 9 tokens > 8 maximum", "", ContextTooLong),
        (413, "input is too long", "", ContextTooLong),
        (400, "unknown tool", "", BadModelRequest),
        (404, "no such model", "", BadModelRequest),
        (422, "bad", "", BadModelRequest),
        (408, "slow", "", ModelUnavailable),
        (409, "again", "", ModelUnavailable),
        (500, "context window service crashed", "", ModelUnavailable),
        (529, "overloaded", "", ModelUnavailable),
    ],
)
def test_a_status_becomes_a_typed_error(status: int, message: str, code: str, kind: type[ModelError]) -> None:
    error = failure_of(status, message, code)
    assert (type(error), str(error)) == (kind, f"{message} (HTTP {status})")


class Source:
    """Yields two items, then waits for ever; knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    async def items(self) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_a_stream_that_takes_too_long_times_out_and_is_closed() -> None:
    source = Source()
    seen: list[int] = []

    async def take() -> None:
        async for item in timed(source.items(), 0.05):
            seen.append(item)

    with pytest.raises(ModelTimeout, match=r"no complete reply within 0\.05 s"):
        await take()
    assert (seen, source.closed) == ([1, 2], True)


async def test_closing_a_timed_stream_closes_its_source() -> None:
    source = Source()
    stream: Any = timed(source.items(), None)
    assert await anext(stream) == 1
    await stream.aclose()
    assert source.closed


async def test_a_stream_that_ends_in_time_is_passed_on_whole() -> None:
    async def three() -> AsyncIterator[int]:
        for item in range(3):
            yield item

    assert [item async for item in timed(three(), 60)] == [0, 1, 2]
