"""The files of the fold cache, in a session's folder: whatever happens to them, the views are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segue.events import Event, InvocationStarted, MessageDelta, MessageEnd, MessageStart, NoMoreActions
from segue.fold import Conversation
from segue.journal import Journal, cache
from segue.stores.git import GitStore


@pytest.fixture(autouse=True)
def saved_every_ten_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ROWS", 10)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One session of ten turns, saved."""
    root = tmp_path / "sessions"
    write_turns(root, 1, 10)
    assert messages(root) == EXPECTED
    return root


def write_turns(root: Path, first: int, last: int) -> None:
    with closing(GitStore(root)) as store:
        store.create("s1")
        journal = Journal(store, "s1")
        lease = journal.acquire(holder="me")
        for number in range(first, last + 1):
            journal.append(*turn(number), lease=lease)
        journal.release(lease)
        store.commit("s1", "turns")


def turn(number: int) -> list[Event]:
    reason = {"kind": "user_message", "input": f"question {number}"}
    message = f"m{number}"
    return [
        InvocationStarted(invocation_id=f"i{number}", turn_id=f"t{number}", reason=reason),
        MessageStart(message_id=message),
        MessageDelta(message_id=message, delta={"type": "text", "text": f"answer {number}"}),
        MessageEnd(message_id=message),
        NoMoreActions(turn_id=f"t{number}"),
    ]


EXPECTED = [
    {"role": role, "content": f"{what} {number}"}
    for number in range(1, 11)
    for role, what in (("user", "question"), ("assistant", "answer"))
]


def messages(root: Path) -> list[dict[str, Any]]:
    with closing(GitStore(root)) as store:
        return Journal(store, "s1").view(Conversation).messages()


def folder(root: Path) -> Path:
    return root / "s1" / "cache"


def test_it_is_one_private_file_a_view_in_the_session_s_folder(root: Path) -> None:
    assert [path.name for path in folder(root).iterdir()] == ["conversation"]
    assert (folder(root) / "conversation").stat().st_mode & 0o777 == 0o600
    assert folder(root).stat().st_mode & 0o777 == 0o700


def test_it_is_no_part_of_a_commit_or_a_clone(root: Path, tmp_path: Path) -> None:
    write_turns(root, 11, 11)
    subprocess.run(["git", "clone", "-q", root / "s1" / ".git", tmp_path / "clone"], check=True)
    assert sorted(path.name for path in (tmp_path / "clone").iterdir()) == [".git", "history", "meta.json"]


def make_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent / "meta.json")


def make_the_folder_a_file(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("x")


def forbid_everything(path: Path) -> None:
    path.chmod(0)
    path.parent.chmod(0)


def empty_it(path: Path) -> None:
    path.write_bytes(b"")


def cut_it(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def make_it_huge(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x" * 20_000_000)


DAMAGES = [
    make_a_directory,
    make_a_pipe,
    make_a_link,
    make_the_folder_a_file,
    forbid_everything,
    make_it_huge,
    Path.unlink,
    empty_it,
    cut_it,
]


@pytest.fixture
def forgiving(root: Path) -> Iterator[None]:
    yield
    if folder(root).is_dir():
        folder(root).chmod(0o700)


@pytest.mark.usefixtures("forgiving")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_whatever_is_in_its_place_the_messages_are_the_same_and_so_are_the_next_ones(
    root: Path, damage: Callable[[Path], object]
) -> None:
    damage(folder(root) / "conversation")
    assert messages(root) == EXPECTED
    assert messages(root) == EXPECTED
    write_turns(root, 11, 14)
    assert len(messages(root)) == 28
    assert messages(root)[:20] == EXPECTED


def test_a_file_that_may_not_be_touched_is_replaced(root: Path) -> None:
    path = folder(root) / "conversation"
    make_a_link(path)
    assert messages(root) == EXPECTED
    assert not path.is_symlink()
    assert path.read_bytes().count(b"\n") == 1


def test_a_store_that_is_closed_writes_nothing(root: Path) -> None:
    store = GitStore(root)
    store.close()
    store.write_cache("s1", "conversation", b"x", after=None)
    assert (folder(root) / "conversation").read_bytes() != b"x"
