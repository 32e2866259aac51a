"""Every test here runs on the memory store and on the git store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from handling import Desk

from segue.session.db import SessionDB, default_db
from segue.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "git"])
def db(request: pytest.FixtureRequest, home: Path) -> Iterator[SessionDB]:
    opened = default_db() if request.param == "git" else SessionDB(MemoryStore())
    yield opened
    opened.close()


@pytest.fixture
def desk(db: SessionDB) -> Desk:
    return Desk(db)
