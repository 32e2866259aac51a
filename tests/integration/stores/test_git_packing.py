"""Packs of the derived history: few, whole, and durable before anything goes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from segue.stores.git import GitStore
from segue.stores.git.objects import DamagedObject
from segue.stores.git.packing import _packs, join_like, pack, pack_loose
from segue.testing.store_process import control_row

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
CLEAN = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=folder, env=CLEAN, capture_output=True, text=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitStore]:
    """It packs only when a test says so: ids decide by chance how many objects are too many."""
    monkeypatch.setattr("segue.stores.git.commits.pack_when_many", lambda git: None)
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        yield store


@pytest.fixture
def folder(store: GitStore) -> Path:
    return store.root / "s1" / ".git" / "objects" / "pack"


def turns(store: GitStore, count: int) -> None:
    for _ in range(count):
        store.append("s1", [control_row()])
        store.commit("s1", "turn")
        assert store.drain_commits(30)


def packs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pack"))


def is_whole(store: GitStore, commits: int) -> bool:
    session = store.root / "s1"
    checked = git(session, "fsck", "--full", "--strict")
    counted = git(session, "rev-list", "--count", "HEAD").stdout.strip()
    return (checked.returncode, checked.stdout, checked.stderr, counted) == (0, "", "", str(commits))


def test_packs_stay_few_while_their_number_of_objects_grows(store: GitStore, folder: Path) -> None:
    numbers = []
    for _ in range(40):
        turns(store, 2)
        pack(folder.parent.parent)
        numbers.append(len(packs(folder)))
    assert max(numbers) <= 5
    assert [path.name for path in folder.parent.glob("??/*")] == []
    assert is_whole(store, 80)


def test_a_joined_pack_passes_gits_own_check_and_can_be_cloned(
    store: GitStore, folder: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        turns(store, 3)
        pack(folder.parent.parent)
    [joined] = packs(folder)
    assert git(folder, "verify-pack", str(joined)).returncode == 0
    assert git(tmp_path, "clone", "-q", str(store.root / "s1"), "clone").returncode == 0
    rows = sorted((tmp_path / "clone" / "history").rglob("*.jsonl"))
    assert (
        b"".join(path.read_bytes() for path in rows)
        == (store.root / "s1" / "history" / f"{1:012d}.jsonl").read_bytes()
    )


def test_a_small_pack_does_not_keep_the_others_apart(store: GitStore, folder: Path) -> None:
    turns(store, 1)
    for _ in range(6):
        pack_loose(folder.parent)
        turns(store, 8)
    pack(folder.parent.parent)
    assert (len(packs(folder)), is_whole(store, 49)) == (1, True)


def test_a_big_pack_is_not_copied_for_a_small_one(store: GitStore, folder: Path) -> None:
    turns(store, 40)
    pack(folder.parent.parent)
    big = packs(folder)
    turns(store, 1)
    pack(folder.parent.parent)
    assert (len(packs(folder)), set(big) <= set(packs(folder))) == (2, True)


def test_an_object_that_is_packed_already_is_not_packed_again(store: GitStore, folder: Path) -> None:
    turns(store, 1)
    pack_loose(folder.parent)
    turns(store, 1)  # writes meta.json's object anew
    pack_loose(folder.parent)
    first, second = _packs(folder)
    assert set(first.ids()) & set(second.ids()) == set()


def test_a_pack_knows_which_objects_it_has(store: GitStore, folder: Path) -> None:
    turns(store, 60)
    pack_loose(folder.parent)
    [found] = _packs(folder)
    listed = git(store.root / "s1", "rev-list", "--objects", "--all").stdout.splitlines()
    oids = sorted(bytes.fromhex(line.split()[0]) for line in listed)
    others = [bytes([*oid[:19], oid[19] ^ 1]) for oid in oids] + [b"\0" * 20, b"\xff" * 20]
    assert (found.ids(), [oid in found for oid in oids]) == (oids, [True] * len(oids))
    assert [oid in found for oid in others] == [False] * len(others)


def test_packs_that_a_crash_left_after_they_were_joined_are_removed(
    store: GitStore, folder: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        turns(store, 3)
        pack_loose(folder.parent)
    shutil.copytree(folder, tmp_path / "before")
    join_like(folder)
    [joined] = packs(folder)
    shutil.copytree(tmp_path / "before", folder, dirs_exist_ok=True)
    pack(folder.parent.parent)
    assert (packs(folder), is_whole(store, 6)) == ([joined], True)


def test_a_pack_that_somebody_keeps_is_left_alone(store: GitStore, folder: Path) -> None:
    turns(store, 3)
    pack(folder.parent.parent)
    [kept] = packs(folder)
    kept.with_suffix(".keep").touch()
    for _ in range(2):
        turns(store, 3)
        pack(folder.parent.parent)
    assert (len(packs(folder)), kept in packs(folder)) == (2, True)
    assert is_whole(store, 9)


def test_packs_and_an_index_over_them_that_git_made_are_joined_with_ours(
    store: GitStore, folder: Path
) -> None:
    turns(store, 5)
    assert git(store.root / "s1", "gc", "-q").returncode == 0
    assert git(store.root / "s1", "multi-pack-index", "write").returncode == 0
    turns(store, 5)
    pack(folder.parent.parent)
    assert (len(packs(folder)), list(folder.glob("multi-pack-index*"))) == (1, [])
    assert is_whole(store, 10)


def test_a_damaged_pack_is_not_joined_but_told(store: GitStore, folder: Path) -> None:
    for _ in range(2):
        turns(store, 3)
        pack_loose(folder.parent)
    damaged = packs(folder)[0]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 255
    damaged.chmod(0o600)
    damaged.write_bytes(data)
    before = sorted(folder.iterdir())
    with pytest.raises(DamagedObject, match=damaged.name):
        join_like(folder)
    assert sorted(folder.iterdir()) == before


def test_files_of_an_interrupted_packing_are_removed_when_they_are_old(store: GitStore, folder: Path) -> None:
    turns(store, 1)
    names = ("tmp_pack_1", "tmp_idx_1", "pack_git2_abc", f"pack-{'0' * 40}.pack")
    for name in names:
        (folder / name).touch()
    pack(folder.parent.parent)
    kept = [(folder / name).exists() for name in names]
    for name in names:
        os.utime(folder / name, (time.time() - 3600,) * 2)
    pack(folder.parent.parent)
    assert (kept, [(folder / name).exists() for name in names]) == ([True] * 4, [False] * 4)


def test_nothing_is_removed_before_its_copy_is_synced(
    store: GitStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns(store, 3)
    pack_loose(folder.parent)
    turns(store, 3)
    loose = len(list(folder.parent.glob("??/*")))
    steps: list[str] = []
    fsync, unlink = os.fsync, Path.unlink

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        steps.append("sync")

    def removed(path: Path, missing_ok: bool = False) -> None:
        if path.exists():
            steps.append("remove")
        unlink(path, missing_ok)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "unlink", removed)
    pack(folder.parent.parent)
    counted = [(kind, len(list(group))) for kind, group in itertools.groupby(steps)]
    assert counted == [("sync", 3), ("remove", loose), ("sync", 3), ("remove", 4)]
