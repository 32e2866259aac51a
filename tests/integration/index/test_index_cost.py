"""What bringing the index up to date reads: what is new, whatever the length of the session or their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from segue.events import Envelope
from segue.stores.git import GitStore

if TYPE_CHECKING:
    from conftest import Home


class CountingStore(GitStore):
    rows = 0

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        for envelope in super().read(session_id, after_seq):
            self.rows += 1
            yield envelope


def rows_read(home: Home) -> int:
    """By one listing."""
    store = home.store
    assert isinstance(store, CountingStore)
    store.rows = 0
    home.list_sessions()
    return store.rows


@pytest.fixture
def counted(here: Home) -> Home:
    here.store.__class__ = CountingStore
    return here


def test_after_one_turn_only_its_rows_are_read(counted: Home) -> None:
    read = []
    for turns in (3, 100):
        for _ in range(turns):
            counted.turn(f"of-{turns}", "words")
        counted.list_sessions()
        counted.turn(f"of-{turns}", "words")
        read.append(rows_read(counted))
    assert read == [6, 6]  # the last row that is known, and five new ones


def test_when_nothing_changed_nothing_is_read(counted: Home) -> None:
    counted.turn("one", "words")
    before = rows_read(counted)
    assert (before, rows_read(counted)) == (6, 0)
