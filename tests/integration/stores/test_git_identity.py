"""Whose folder is it: meta.json that is gone, wrong or newer, and folders that were renamed or copied by hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from damage import folder, made, titled, verify

from segue.errors import MisplacedSession, NewerFormat, SegueError
from segue.session.db import SessionDB
from segue.stores.git import GitStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


CONTENTS = {
    "missing": None,
    "empty": b"",
    "nul bytes": b"\0" * 80,
    "half": b'{"format": 1, "id": "s',
    "not an object": b"[1]",
    "deep": b"[" * 100_000,
    "another id": b'{"format": 1, "id": "other", "created_at": "2026"}',
    "no id": b'{"format": 1, "id": "../x", "created_at": "2026"}',
}


@pytest.mark.parametrize("content", CONTENTS)
def test_meta_that_is_not_this_sessions_stops_nothing_and_is_written_again(root: Path, content: str) -> None:
    lines = made(root)
    path = folder(root) / "meta.json"
    path.unlink()
    if (data := CONTENTS[content]) is not None:
        path.write_bytes(data)
    with closing(GitStore(root)) as store:
        assert list(store.read_lines("s1")) == lines
        store.append("s1", [titled(25)])
        reports = store.reports("s1")
    assert verify(root) == []
    assert [f"{path} was" in report for report in reports] == [True]


OPERATIONS: tuple[Callable[[GitStore], object], ...] = (
    lambda store: store.last_seq("s1"),
    lambda store: list(store.read("s1")),
    lambda store: store.append("s1", [titled(1)]),
    lambda store: store.acquire("s1", holder="me"),
    lambda store: store.put_blob("s1", "files", b"data"),
    lambda store: store.delete("s1"),
)


def refused(root: Path, error: type[SegueError], words: str) -> None:
    """Every operation is, and nothing is changed."""
    before = {path: path.read_bytes() for path in folder(root).rglob("*") if path.is_file()}
    for operation in OPERATIONS:
        with closing(GitStore(root)) as store, pytest.raises(error, match=words):
            operation(store)
    assert {path: path.read_bytes() for path in folder(root).rglob("*") if path.is_file()} == before


def test_a_newer_format_is_refused_by_everything(root: Path) -> None:
    made(root)
    (folder(root) / "meta.json").write_text('{"format": 2, "id": "s1", "created_at": "2027", "more": [1]}')
    refused(root, NewerFormat, "written by a newer Segue")


def test_a_renamed_folder_is_refused_and_says_what_to_call_it(root: Path) -> None:
    made(root, session_id="Old")
    (root / "old+1").rename(root / "s1")
    refused(root, MisplacedSession, r"holds session Old, not s1: rename the folder to old\+1")
    (root / "s1").rename(root / "old+1")
    with closing(GitStore(root)) as store:
        assert store.last_seq("Old") == 24


def test_a_copied_folder_is_refused_and_the_first_one_goes_on(root: Path) -> None:
    made(root, session_id="first")
    shutil.copytree(root / "first", root / "s1")
    refused(root, MisplacedSession, "it is a copy of first, which is there too")
    with closing(GitStore(root)) as store:
        assert store.append("first", [titled(25)]) == [25]


def test_a_copied_folder_whose_meta_was_edited_too_is_refused_by_its_rows(root: Path) -> None:
    made(root, session_id="first")
    shutil.copytree(root / "first", root / "s1")
    (root / "s1" / "meta.json").write_text('{"format": 1, "id": "s1", "created_at": "2026"}')
    with closing(GitStore(root)) as store, pytest.raises(SegueError, match="session first"):
        list(store.read("s1"))


def test_a_folder_that_is_moved_to_another_home_goes_on_there(root: Path, tmp_path: Path) -> None:
    lines = made(root)
    (tmp_path / "elsewhere").mkdir()
    shutil.move(root / "s1", tmp_path / "elsewhere" / "s1")
    with closing(GitStore(tmp_path / "elsewhere")) as store:
        assert list(store.read_lines("s1")) == lines
        assert store.append("s1", [titled(25)]) == [25]
    assert verify(tmp_path / "elsewhere") == []


def test_a_misplaced_session_is_listed_with_what_to_do_and_hides_no_other(root: Path) -> None:
    made(root, session_id="good")
    made(root, session_id="old")
    (root / "old").rename(root / "s1")
    with closing(SessionDB(GitStore(root))) as db:
        listed = {info.session_id: (info.status, info.title) for info in db.list_sessions(without_turns=True)}
    assert listed["good"][0] != "damaged"
    assert listed["s1"][0] == "damaged"
    assert "rename the folder to old" in listed["s1"][1]


def test_the_program_says_what_to_do_with_a_renamed_folder(home: Path) -> None:
    made(home / "sessions", session_id="old")
    (home / "sessions" / "old").rename(home / "sessions" / "s1")
    for command in (["show", "s1"], ["repair", "s1"]):
        done = subprocess.run(
            [sys.executable, "-m", "segue", "sessions", *command], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "rename the folder to old" in done.stderr) == (1, True), done.stderr
