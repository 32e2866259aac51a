"""Change marks on disk: made durably before the first row, also by the next one when somebody died on the way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from segue.errors import StorageError
from segue.stores.git import GitStore
from segue.testing.store_process import control_row


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        store.append("s1", [control_row()])
        yield store


def test_a_mark_has_the_name_of_its_sessions_folder(store: GitStore) -> None:
    store.create("MyId")
    assert sorted(os.listdir(store.root / ".dirty")) == ["myid+5", "s1"]


def test_a_mark_that_may_not_be_durable_is_finished_by_the_next_append(store: GitStore) -> None:
    mark = store.root / ".dirty" / "s1"
    mark.write_bytes(b"")
    store.append("s1", [control_row()])
    assert mark.read_bytes() == b"\n"


def test_without_its_mark_nothing_is_written(store: GitStore) -> None:
    store.unmark("s1", 1)
    (store.root / ".dirty").rmdir()
    (store.root / ".dirty").write_text("not a folder")
    with pytest.raises(StorageError, match=r"cannot write .*\.dirty/s1"):
        store.append("s1", [control_row()])
    assert store.last_seq("s1") == 1


def test_the_folder_of_marks_is_made_again(store: GitStore) -> None:
    store.unmark("s1", 1)
    (store.root / ".dirty").rmdir()
    assert store.marked() == []
    store.append("s1", [control_row()])
    assert store.marked() == ["s1"]


def test_a_planted_link_is_not_followed(store: GitStore, tmp_path: Path) -> None:
    store.unmark("s1", 1)
    (store.root / ".dirty" / "s1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=r"\.dirty/s1"):
        store.append("s1", [control_row()])
    assert not (tmp_path / "elsewhere").exists()


def test_a_torn_append_keeps_its_mark_until_somebody_healed_it(store: GitStore) -> None:
    with open(store.root / "s1" / "history" / f"{1:012d}.jsonl", "ab") as segment:
        segment.write(b'{"half of a row')
    with closing(GitStore(store.root)) as other:
        kept = other.unmark("s1", 1)
        assert (kept, other.last_seq("s1"), other.unmark("s1", 1)) == (False, 1, True)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    for command in (["mount", "--bind", path, path], ["mount", "-o", "remount,bind,ro", path]):
        if os.geteuid() != 0 or subprocess.run(list(map(str, command)), capture_output=True).returncode:
            pytest.skip("mounting read-only needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_read_only_folder_keeps_its_marks(store: GitStore) -> None:
    with read_only(store.root), closing(GitStore(store.root)) as looking:
        assert (looking.unmark("s1", 1), looking.unmark("gone", 0), looking.marked()) == (False, True, ["s1"])


def test_a_folder_copied_by_hand_changes_the_census(store: GitStore) -> None:
    os.utime(store.root, ns=(10**18, 10**18))
    before = [store.census(), store.census()]
    subprocess.run(["cp", "-r", store.root / "s1", store.root / "s2"], check=True)
    assert (before[0] == before[1] != "", store.census()) == (True, "")
