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


class TestMemoryStore(StoreConformance):
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
