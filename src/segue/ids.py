"""Where identifiers and times come from: the one impure corner of the record. Whoever writes takes these as parameters."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

IdSource = Callable[[str], str]
Clock = Callable[[], str]

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread


def new_id(prefix: str, length: int = 16) -> str:
    """`prefix_` and `length` random characters, 5 bits each (16: 80 bits, no collision in practice)."""
    return f"{prefix}_{''.join(ALPHABET[byte & 31] for byte in os.urandom(length))}"


def new_session_id(prefix: str = "adhoc") -> str:
    """Short enough to type: 8 characters, 40 bits. The store refuses to create one that exists."""
    return f"{prefix}_{''.join(secrets.choice(ALPHABET) for _ in range(8))}"


def utc_now() -> str:
    """The time now, RFC 3339 in UTC with microseconds: `2026-11-29T21:07:24.000001Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
