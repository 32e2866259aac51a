"""The file of the index: missing, damaged, replaced, in the way, out of date, on a full or read-only disk."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from segue.session.db import SessionDB

if TYPE_CHECKING:
    from conftest import Home

Open = Callable[[], "Home"]


@pytest.fixture
def three(here: Home) -> Home:
    for name in ("one", "two", "three"):
        here.turn(name, f"words of {name}")
    return here


def test_the_index_is_made_when_it_is_missing_for_the_owner_alone(three: Home, place: Path) -> None:
    before = (place / "index.sqlite").exists()
    assert (before, three.right(), (place / "index.sqlite").stat().st_mode & 0o777) == (False, True, 0o600)


def test_looking_at_a_home_that_is_not_there_makes_nothing(here: Home, place: Path) -> None:
    place.rmdir()
    listed = here.list_sessions()
    exists = place.exists()
    place.mkdir()
    here.turn("one", "words")
    assert (listed, exists, here.right()) == ([], False, True)


def test_marks_are_taken_away_once_their_session_is_indexed(three: Home) -> None:
    before = three.store.marked()
    three.list_sessions()
    assert (before, three.store.marked()) == (["one", "three", "two"], [])


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()


def earlier_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 0")
    database.close()


def without_a_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE session")
    database.close()


def spoilt_in_the_middle(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(os.path.getsize(path) - 4096))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"this is no database" * 1000),
    "nothing in it": lambda path: path.write_bytes(b""),
    "cut off": lambda path: os.truncate(path, 5000),
    "cut off in its head": lambda path: os.truncate(path, 50),
    "spoilt in the middle": spoilt_in_the_middle,
    "a write-ahead log of something else": lambda path: Path(f"{path}-wal").write_bytes(os.urandom(9000)),
    "somebody else's database": lambda path: (path.unlink(), other_database(path)),
    "an earlier version": earlier_version,
    "a table is missing": without_a_table,
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_index_is_made_anew(three: Home, place: Path, open_home: Open, kind: str) -> None:
    three.list_sessions()
    three.close()
    DAMAGE[kind](place / "index.sqlite")
    assert open_home().right()


@pytest.mark.parametrize(
    "kind", ["garbage", "cut off", "spoilt in the middle", "a table is missing", "removed"]
)
def test_an_index_damaged_while_it_is_open_is_made_anew(three: Home, place: Path, kind: str) -> None:
    three.list_sessions()
    DAMAGE[kind](place / "index.sqlite")
    three.turn("four", "words of four")
    assert three.right()


def test_whoever_has_the_old_file_open_notices_a_new_one(three: Home, open_home: Open) -> None:
    other = open_home()
    other.list_sessions()
    three.reindex()
    three.turn("four", "words of four")
    assert (other.right(), three.right(), three.store.marked()) == (True, True, [])


def test_an_index_of_a_later_version_is_left_alone(
    three: Home, place: Path, open_home: Open, caplog: pytest.LogCaptureFixture
) -> None:
    three.list_sessions()
    three.close()
    with sqlite3.connect(place / "index.sqlite") as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    before = (place / "index.sqlite").read_bytes()
    assert (open_home().right(), (place / "index.sqlite").read_bytes() == before) == (True, True)
    assert "a later version of Segue made it" in caplog.text


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_file_is_left_alone_and_told(
    three: Home, place: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = place / "index.sqlite"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(place / "elsewhere")
    assert (three.right(), (place / "elsewhere").exists()) == (True, False)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"the index {path} cannot be used, so sessions are read one by one"
    ]


@contextmanager
def mounted(*commands: list[str], at: Path) -> Iterator[None]:
    for command in commands:
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def test_in_a_read_only_home_sessions_are_listed_and_found(
    three: Home, place: Path, open_home: Open, caplog: pytest.LogCaptureFixture
) -> None:
    three.list_sessions()
    three.turn("four", "words of four")
    three.close()
    commands = [
        ["mount", "--bind", str(place), str(place)],
        ["mount", "-o", "remount,bind,ro", str(place)],
    ]
    with mounted(*commands, at=place):
        db = open_home()
        assert (db.right(), db.right(), db.store.marked()) == (True, True, ["four"])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_on_a_full_disk_sessions_are_listed_and_found(
    tmp_path: Path, place: Path, three: Home, caplog: pytest.LogCaptureFixture
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], at=disk):
        shutil.copytree(place / "sessions", disk / "sessions")
        with open(disk / "ballast", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(b"x" * 4096)
        db = type(three)(disk)
        assert db.right()
        db.close()
    assert "cannot be used, so sessions are read one by one: database or disk is full" in caplog.text


def test_a_session_copied_by_hand_is_listed(three: Home, place: Path) -> None:
    three.list_sessions()
    elsewhere = place / "other"
    other = type(three)(elsewhere)
    other.turn("four", "words of four")
    other.close()
    shutil.copytree(elsewhere / "sessions" / "four", place / "sessions" / "four")
    assert three.right()


def test_a_session_removed_by_hand_is_not_listed(three: Home, place: Path) -> None:
    three.list_sessions()
    shutil.rmtree(place / "sessions" / "two")
    assert (three.right(), three.saying("two")) == (True, [])


def test_a_session_set_back_by_hand_is_right_after_reindexing(
    three: Home, place: Path, open_home: Open
) -> None:
    shutil.copytree(place / "sessions" / "two", place / "kept")
    three.turn("two", "later words")
    three.list_sessions()
    three.close()
    shutil.rmtree(place / "sessions" / "two")
    shutil.copytree(place / "kept", place / "sessions" / "two")
    db = open_home()
    assert (db.reindex(), db.right(), db.saying("later")) == (3, True, [])


def test_a_damaged_session_is_listed_last_with_the_reason_and_hides_no_other(
    three: Home, place: Path, open_home: Open
) -> None:
    three.close()
    segment = place / "sessions" / "three" / "history" / f"{1:012d}.jsonl"
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"INVOCATION", b"INVOC\x00TION"))
    db = open_home()
    statuses = [(name, status) for name, _, _, status in db.look()]
    reason = db.look()[-1][1]
    segment.write_bytes(whole)
    assert statuses == [("two", "completed"), ("one", "completed"), ("three", "damaged")]
    assert str(segment) in reason
    assert db.right()


def test_a_forked_child_lists_and_leaves_the_parents_index_alone(three: Home) -> None:
    three.list_sessions()
    child = os.fork()
    if child == 0:
        os._exit(0 if len(three.list_sessions()) == 3 else 1)
    _, status = os.waitpid(child, 0)
    three.turn("four", "words of four")
    assert (os.waitstatus_to_exitcode(status), three.right()) == (0, True)


def test_an_index_without_a_file_leaves_the_marks_to_the_one_with(three: Home) -> None:
    passing = SessionDB(three.store)
    listed = [info.session_id for info in passing.list_sessions()]
    assert (listed, three.store.marked()) == (["three", "two", "one"], ["one", "three", "two"])
    assert (three.right(), three.store.marked()) == (True, [])
