"""Every store under the shipped suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Store
from segue.testing.conformance import MultiProcessConformance, StoreConformance

PROGRAMS = Path(__file__).parents[1] / "programs"


class TestMemoryStore(StoreConformance):
    appends = 1000

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with closing(MemoryStore()) as store:
            yield store


class TestGitStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with closing(GitStore(tmp_path / "sessions")) as store:
            yield store


class TestGitStoreWithSmallSegments(StoreConformance):
    """Every few rows a new segment: whatever holds for one file holds for many."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with closing(GitStore(tmp_path / "sessions", segment_bytes=500)) as store:
            yield store


class TestGitStoreInProcesses(MultiProcessConformance):
    opener = "segue.stores.git:GitStore"


class TestGitStoreWithSmallSegmentsInProcesses(MultiProcessConformance):
    """What another process reads and watches is in another file every few appends."""

    opener = "small_segments:open_store"
    appends = 250

    @pytest.fixture(autouse=True)
    def program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(PROGRAMS)
        monkeypatch.setenv("PYTHONPATH", str(PROGRAMS))
