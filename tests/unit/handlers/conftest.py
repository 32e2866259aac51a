"""Every test here runs on the memory store and on the git store, and leaves only histories that a provider accepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from handling import Desk
from oracle import violations

from segue.errors import PendingCalls
from segue.fold import provider_messages
from segue.fold.conversation import fold
from segue.session.db import SessionDB, default_db
from segue.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "git"])
def db(request: pytest.FixtureRequest, home: Path) -> Iterator[SessionDB]:
    opened = default_db() if request.param == "git" else SessionDB(MemoryStore())
    yield opened
    for session_id in opened.store.sessions():
        left = fold(opened.read(session_id)).messages()
        try:
            found = violations(provider_messages(left))
        except PendingCalls:  # it waits: nothing can be sent
            continue
        assert (session_id, found) == (session_id, [])
    opened.close()


@pytest.fixture
def desk(db: SessionDB) -> Desk:
    return Desk(db)
