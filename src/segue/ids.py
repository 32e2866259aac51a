"""Where identifiers and times come from: the one impure corner of the record. Whoever writes is given them."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from datetime import UTC, datetime

IdSource = Callable[[str], str]
Clock = Callable[[], str]


def new_id(prefix: str) -> str:
    """`prefix_` and 16 random characters of RFC 4648 base 32 in lower case: 80 bits, no collision in practice."""
    return f"{prefix}_{_random(10)}"


def new_session_id(prefix: str = "adhoc") -> str:
    """Short enough to type: 8 characters, 40 bits. The store refuses to create one that exists."""
    return f"{prefix}_{_random(5)}"


def utc_now() -> str:
    """The time now, RFC 3339 in UTC with microseconds: `2026-11-29T21:07:24.000001Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _random(size: int) -> str:
    """`size` random bytes as text, 5 at a time without padding."""
    return base64.b32encode(os.urandom(size)).decode("ascii").lower()
