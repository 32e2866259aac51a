"""A journal from (type, payload) pairs: seq counts from 1, one second passes with each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from segue.events import Envelope

Rows = Callable[..., list[Envelope]]


def make(*rows: tuple[str, Any]) -> list[Envelope]:
    return [
        Envelope(f"evt_{seq}", "ses", "dep", seq, kind, payload, f"2026-01-01T00:00:{seq:02}Z")
        for seq, (kind, payload) in enumerate(rows, 1)
    ]


@pytest.fixture
def journal() -> Rows:
    return make
