"""Where identifiers and times come from: the one impure corner of the record. Whoever writes is given them."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

_ALPHABET = bytes(b"abcdefghijklmnopqrstuvwxyz234567"[number % 32] for number in range(256))
IdSource = Callable[[str], str]
Clock = Callable[[], str]


def new_id(prefix: str) -> str:
    """`prefix_` and 16 random characters of RFC 4648 base 32 in lower case: 80 bits, no collision in practice."""
    return f"{prefix}_{_random(16)}"


def new_session_id(prefix: str = "adhoc") -> str:
    """Short enough to type: 8 characters, 40 bits. The store refuses to create one that exists."""
    return f"{prefix}_{_random(8)}"


def utc_now() -> str:
    """The time now, RFC 3339 in UTC with microseconds: `2026-11-29T21:07:24.000001Z`."""
    seconds, microseconds = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{_second(seconds)}.{microseconds:06d}Z"


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _random(length: int) -> str:
    """Five random bits a character."""
    return os.urandom(length).translate(_ALPHABET).decode("ascii")
