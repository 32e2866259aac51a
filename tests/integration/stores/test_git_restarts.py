"""What a restart of the machine leaves of the derived history, of which nothing was synced, and what comes of it."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from segue.stores.git import GitStore, restarts
from segue.stores.git.layout import SessionPaths
from segue.stores.git.objects import is_whole
from segue.stores.git.packing import pack_loose
from segue.testing.store_process import control_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One session with three commits and three blobs."""
    root = tmp_path / "sessions"
    with closing(GitStore(root)) as store:
        store.create("s1")
        for number in range(3):
            turn(store, b"blob %d" % number)
    return root


@pytest.fixture
def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "boot_id", lambda: "the next start")


def turn(store: GitStore, blob: bytes) -> str:
    store.append("s1", [control_row()])
    digest = store.put_blob("s1", "context", blob)
    store.commit("s1", "a turn")
    assert store.drain_commits(10), "the commit takes for ever"
    return digest


def next_turn(root: Path) -> tuple[int, str, set[str]]:
    """Exit code and complaints of `git fsck` after one more turn, and the blobs that are committed then."""
    with closing(GitStore(root)) as store:
        turn(store, b"one more")
    folder = str(root / "s1")
    fsck = ["git", "-C", folder, "fsck", "--full", "--strict", "--no-dangling", "--no-progress"]
    checked = subprocess.run(fsck, capture_output=True, text=True)
    names = ["git", "-C", folder, "ls-tree", "-r", "--name-only", "HEAD", "context"]
    found = subprocess.run(names, capture_output=True, text=True, check=True).stdout.split()
    return checked.returncode, checked.stdout + checked.stderr, {name.rpartition("/")[2] for name in found}


def digests(root: Path) -> set[str]:
    return {path.parent.name + path.name for path in (root / "s1" / "context").glob("*/*")}


def loose(root: Path) -> list[Path]:
    return sorted((root / "s1" / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*"))


def test_any_object_that_is_cut_short_is_made_again(root: Path, restart: None) -> None:
    for path in loose(root)[::3]:
        path.write_bytes(path.read_bytes()[:10])
    code, complaints, committed = next_turn(root)
    assert (code, complaints, committed) == (0, "", digests(root))


def test_any_object_that_is_missing_is_made_again(root: Path, restart: None) -> None:
    for path in loose(root)[::4]:
        path.unlink()
    code, complaints, committed = next_turn(root)
    assert (code, complaints, committed) == (0, "", digests(root))


def test_a_damaged_object_that_no_commit_needs_goes(root: Path, restart: None) -> None:
    stray = root / "s1" / ".git" / "objects" / "ab" / ("c" * 38)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"")
    assert (next_turn(root)[:2], stray.exists()) == ((0, ""), False)


def test_the_index_of_a_pack_that_is_not_there_goes(root: Path, restart: None) -> None:
    pack_loose(root / "s1" / ".git" / "objects")
    [pack] = (root / "s1" / ".git" / "objects" / "pack").glob("*.pack")
    pack.unlink()
    code, complaints, committed = next_turn(root)
    assert (code, complaints, committed) == (0, "", digests(root))


def test_blobs_that_the_log_has_lost_are_committed(root: Path, restart: None) -> None:
    log = SessionPaths(root, "s1").blob_log
    log.write_bytes(log.read_bytes()[:100] + bytes(7))
    assert next_turn(root)[2] == digests(root)
    assert next_turn(root)[2] == digests(root)


def test_what_was_looked_at_since_the_start_is_not_looked_at_again(root: Path) -> None:
    with closing(GitStore(root)) as store:
        turn(store, b"looked at")
    stray = root / "s1" / ".git" / "objects" / "ab" / ("c" * 38)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"")
    with closing(GitStore(root)) as store:
        turn(store, b"not looked at")
    assert stray.exists()


def test_a_commit_that_finds_its_last_one_cut_short_in_between_goes_on(root: Path) -> None:
    """libgit2 never returns from reading such an object."""
    head = (root / "s1" / ".git" / "refs" / "heads" / "main").read_text().strip()
    path = root / "s1" / ".git" / "objects" / head[:2] / head[2:]
    path.write_bytes(path.read_bytes()[:10])
    assert not is_whole(str(path))
    code, complaints, committed = next_turn(root)
    assert (code, complaints, committed) == (0, "", digests(root))


def test_a_torn_list_of_full_segments_only_costs_the_check(tmp_path: Path) -> None:
    with closing(GitStore(tmp_path, segment_bytes=300)) as store:
        store.create("s1")
        for _ in range(6):
            store.append("s1", [control_row()])
    sealed = SessionPaths(tmp_path, "s1").sealed
    lines = sealed.read_bytes()
    sealed.write_bytes(bytes(21) + lines[21:-5])
    with closing(GitStore(tmp_path, segment_bytes=300)) as store:
        assert [row.seq for row in store.read("s1")] == [1, 2, 3, 4, 5, 6]
        assert store.append("s1", [control_row()]) == [7]
