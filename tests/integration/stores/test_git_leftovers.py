"""What processes left that died in the middle of something is removed; what a living one is making is not."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from damage import folder, lines_of, made, titled, verify

from segue.stores.git import GitStore
from segue.stores.git.packing import pack

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
OLD = (0, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        yield store


def left(root: Path, name: str) -> Path:
    path = root / name
    (path / "history").mkdir(parents=True)
    (path / "meta.json").write_text("{}")
    os.utime(path, OLD)
    return path


def test_listing_removes_what_creating_and_deleting_left(store: GitStore) -> None:
    paths = [left(store.root, ".new-0123456789abcdef"), left(store.root, ".deleted-0123456789abcdef")]
    assert store.sessions() == ["s1"]
    assert [path.exists() for path in paths] == [False, False]


def test_a_folder_that_a_living_process_is_making_stays(store: GitStore) -> None:
    """Stopped for hours in the middle of creating a session."""
    path = left(store.root, ".new-0123456789abcdef")
    child = os.fork()
    if child == 0:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    try:
        store.sessions()
        kept = path.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    store.sessions()
    assert (kept, path.exists()) == (True, False)


def test_a_young_folder_stays_because_its_maker_may_not_have_locked_it_yet(store: GitStore) -> None:
    path = left(store.root, ".new-0123456789abcdef")
    os.utime(path)
    store.sessions()
    assert path.exists()


def test_a_process_killed_anywhere_while_it_creates_a_session_leaves_nothing_for_long(
    store: GitStore,
) -> None:
    number, code = 0, 9
    while code == 9:
        number += 1
        child = os.fork()
        if child == 0:
            _die_at(number)
            store.create(f"n{number}")
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for path in store.root.glob(".new-*"):
        os.utime(path, OLD)
    sessions = store.sessions()
    assert list(store.root.glob(".new-*")) == []
    for session_id in sessions:
        assert store.append(session_id, [titled(1)]) == [1]
        assert store.verify(session_id) == []
    assert 2 < len(sessions) < number


def _die_at(number: int) -> None:
    count = 0
    for name in ("open", "mkdir", "write", "fsync", "rename", "close"):
        call = getattr(os, name)

        def counted(*arguments: object, _call: object = call, **options: object) -> object:
            nonlocal count
            count += 1
            if count == number:
                os._exit(9)
            return _call(*arguments, **options)  # type: ignore[operator]

        setattr(os, name, counted)


def test_half_written_objects_are_removed_when_objects_are_packed(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    made(root)
    repository = folder(root) / ".git"
    ours = repository / "objects" / "17" / "tmp_obj_0123456789abcdef"
    ours.parent.mkdir(exist_ok=True)
    ours.write_bytes(b"half")
    gits = repository / "objects" / "17" / "tmp_obj_AbCdEf"
    gits.write_bytes(b"half")
    pack(repository)
    assert (ours.exists(), gits.exists()) == (False, True)


def test_a_blob_log_cut_short_costs_no_later_blob_its_place_in_a_commit(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    lines = made(root)
    log = folder(root) / "blobs"
    log.write_bytes(log.read_bytes() + b"files 0123")
    with closing(GitStore(root)) as store:
        digest = store.put_blob("s1", "files", b"another file")
        store.append("s1", [titled(25)])
        store.commit("s1", "next")
        assert store.drain_commits(30)
        assert f"files {digest}\n".encode() in log.read_bytes()
    (folder(root) / "files" / digest[:2] / digest[2:]).unlink()
    with closing(GitStore(root)) as store:
        store.put_blob("s1", "files", b"another file")
    assert (lines_of(root)[:24], verify(root)) == (lines, [])
