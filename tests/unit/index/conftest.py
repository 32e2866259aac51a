"""An index in memory over a store in memory, and sessions to put in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from segue.events.codec import encode_json
from segue.ids import new_id
from segue.index import SessionIndex
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft

Rows = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def index(store: MemoryStore) -> Iterator[SessionIndex]:
    index = SessionIndex(store, clock=lambda: "2026-01-31T00:00:00Z")
    yield index
    index.close()


@pytest.fixture
def write(store: MemoryStore) -> Callable[..., None]:
    """`write(session_id, *rows, day=1)` appends rows of that day in January 2026."""

    def write(session_id: str, *rows: tuple[str, dict[str, Any]], day: int = 1) -> None:
        store.create(session_id)
        lease = store.acquire(session_id, holder="test")
        moment = f"2026-01-{day:02d}T00:00:00Z"
        drafts = [Draft(new_id("evt"), "test", kind, encode_json(payload), moment) for kind, payload in rows]
        store.append(session_id, drafts, lease=lease)
        store.release(lease)

    return write
