"""`repair`: what can be restored is, what cannot is marked, everything that is changed is kept, at a kill too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from damage import (
    JOURNAL,
    ROWS,
    bit_flip,
    folder,
    lines_of,
    made,
    nul_row,
    replace,
    segments,
    snapshot,
    the_blob,
    titled,
    verify,
)

from segue.errors import CorruptJournal, SessionBusy, StorageError
from segue.events.codec import decode_row
from segue.stores.git import GitStore
from segue.stores.git.repair import Report

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def repair(root: Path) -> Report:
    with closing(GitStore(root)) as store:
        return store.repair("s1")


def types(root: Path) -> list[str]:
    with closing(GitStore(root)) as store:
        return [row.type for row in store.read("s1")]


@pytest.mark.parametrize("kind", JOURNAL)
def test_a_committed_journal_is_restored_to_the_byte(root: Path, kind: str) -> None:
    lines = made(root)
    JOURNAL[kind][0](root)
    before = snapshot(folder(root))
    report = repair(root)
    assert (lines_of(root), verify(root)) == (lines, [])
    kept = snapshot(Path(report.backup))
    assert kept.items() <= before.items()
    after = snapshot(folder(root))
    changed = {
        name for name, data in before.items() if after.get(name) != data and not name.startswith("lock/")
    }
    assert changed <= kept.keys()


LOST = {
    "nul row": [12, 13],
    "gap": [12, 13],
    "last row cut": [24],
    "last segment gone": [19, 20, 21, 22, 23, 24],
    "segment gone": list(range(10, 19)),
}


@pytest.mark.parametrize("kind", LOST)
def test_rows_that_nobody_has_become_row_lost_rows(root: Path, kind: str) -> None:
    lines = made(root, committed=0)
    JOURNAL[kind][0](root)
    repair(root)
    rows = [decode_row(line) for line in lines_of(root)]
    assert [row.seq for row in rows] == list(range(1, ROWS + 1))
    assert [row.seq for row in rows if row.type == "ROW_LOST"] == LOST[kind]
    kept = [line for line in lines_of(root) if decode_row(line).type != "ROW_LOST"]
    assert kept == [line for seq, line in enumerate(lines, 1) if seq not in LOST[kind]]
    assert verify(root) == []


def test_a_repaired_session_goes_on(root: Path) -> None:
    made(root, committed=0)
    nul_row(root)
    with closing(GitStore(root)) as store:
        with pytest.raises(CorruptJournal, match="segue sessions repair s1"):
            list(store.read("s1"))
        store.repair("s1")
        assert store.append("s1", [titled(25)]) == [25]
        assert [row.seq for row in store.read("s1")] == list(range(1, 26))


def test_an_open_store_of_another_process_goes_on_after_a_repair(root: Path) -> None:
    made(root)
    with closing(GitStore(root)) as other:
        assert other.append("s1", [titled(25)]) == [25]
        bit_flip(root)
        replace(segments(root)[-1], b"title 20", b"title 2?")
        repair(root)
        assert other.append("s1", [titled(26)]) == [26]
        assert [row.seq for row in other.read("s1")] == list(range(1, 27))
    assert verify(root) == []


def test_repairing_again_changes_nothing(root: Path) -> None:
    made(root, committed=0)
    nul_row(root)
    repair(root)
    before = snapshot(root)
    assert repair(root).problems == []
    after = snapshot(root)
    assert {name for name in after if before.get(name) != after[name]} <= {"s1/lock/turn"}
    assert before.keys() <= after.keys()


def test_a_position_that_is_lost_or_damaged_is_found_again(root: Path) -> None:
    lines = made(root)
    for content in (None, b"", b"\0" * 96, b"garbage"):
        path = folder(root) / "acknowledged"
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        repair(root)
        assert (lines_of(root), verify(root)) == (lines, [])


def test_meta_json_is_written_again_with_the_time_of_the_first_row(root: Path) -> None:
    first = decode_row(made(root)[0])
    (folder(root) / "meta.json").write_bytes(b"{")
    repair(root)
    text = (folder(root) / "meta.json").read_text()
    assert text == f'{{"format": 1, "id": "s1", "created_at": "{first.created_at}"}}\n'


def test_a_damaged_blob_comes_back_from_the_commits(root: Path) -> None:
    made(root)
    the_blob(root).write_bytes(b"a kopt file")
    repair(root)
    assert (the_blob(root).read_bytes(), verify(root)) == (b"a kept file", [])


def test_a_blob_that_nobody_has_is_kept_in_the_backup_and_noted(root: Path) -> None:
    made(root, committed=0)
    path = the_blob(root)
    path.write_bytes(b"a kopt file")
    report = repair(root)
    assert (Path(report.backup) / path.relative_to(folder(root))).read_bytes() == b"a kopt file"
    assert ([problem.lost for problem in report.problems], path.exists()) == ([True], False)
    assert (folder(root) / "lost").read_text() == f"files {path.parent.name}{path.name}\n"
    assert verify(root) == []


def test_damaged_commits_are_made_again(root: Path) -> None:
    made(root)
    for path in (folder(root) / ".git" / "objects").glob("??/*"):
        path.write_bytes(b"")
    report = repair(root)
    assert {problem.kind for problem in report.problems} == {"git_damaged"}
    assert verify(root) == []


def test_rows_come_back_from_commits_whose_last_one_is_damaged(root: Path) -> None:
    lines = made(root)
    nul_row(root)
    branch = (folder(root) / ".git" / "refs" / "heads" / "main").read_text().strip()
    (folder(root) / ".git" / "objects" / branch[:2] / branch[2:]).write_bytes(b"")
    repair(root)
    assert (lines_of(root), verify(root)) == (lines, [])


def test_links_leftovers_and_loose_modes_are_put_right_and_strays_left_alone(
    root: Path, tmp_path: Path
) -> None:
    made(root)
    (folder(root) / "files" / "planted").symlink_to(tmp_path)
    half = folder(root) / "files" / ".new-0123456789abcdef"
    half.write_text("half")
    os.utime(half, (0, 0))
    (folder(root) / "notes.txt").write_text("mine")
    os.chmod(folder(root), 0o755)
    repair(root)
    assert [problem.kind for problem in verify(root)] == ["stray"]
    assert (folder(root) / "notes.txt").read_text() == "mine"


def test_a_running_turn_is_not_disturbed(root: Path) -> None:
    made(root)
    with closing(GitStore(root)) as store:
        store.acquire("s1", holder="a turn")
        with pytest.raises(SessionBusy, match="a turn"):
            repair(root)


@pytest.mark.parametrize("kind", ["misplaced", "format_newer"])
def test_what_is_no_damage_is_not_repaired(root: Path, kind: str) -> None:
    made(root, session_id="s2" if kind == "misplaced" else "s1")
    if kind == "misplaced":
        (root / "s2").rename(root / "s1")
    else:
        (folder(root) / "meta.json").write_text('{"format": 7, "id": "s1", "created_at": ""}')
    before = snapshot(root)
    with pytest.raises(StorageError, match=r"rename the folder to s2|upgrade Segue"):
        repair(root)
    assert {name for name, data in snapshot(root).items() if before.get(name) != data} <= {"s1/lock/turn"}


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder where syncing costs nothing, if the machine has one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else tmp_path))
    yield folder
    shutil.rmtree(folder)


CALLS = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "fsync",
    "fdatasync",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "rmdir",
)


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do it in a forked child that dies just before its n-th call that changes files. False when it had fewer."""
    child = os.fork()
    if child == 0:
        count = 0

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == number:
                    os._exit(9)
                return call(*arguments, **options)

            return counted

        for name in CALLS:
            setattr(os, name, dying(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def repair_without_commit(root: Path) -> None:
    with closing(GitStore(root, commits=False)) as store:
        store.repair("s1")


def test_a_repair_killed_anywhere_leaves_the_old_or_the_repaired_session(quick: Path) -> None:
    root = quick / "sessions"
    lines = made(root)
    bit_flip(root)
    replace(segments(root)[-1], b"title 20", b"title 2?")
    the_blob(root).unlink()
    (folder(root) / "meta.json").write_bytes(b"{")
    shutil.copytree(root, quick / "damaged")
    outcomes, number = set(), 1
    while killed_at(number, lambda: repair_without_commit(root)):
        try:
            assert lines_of(root) == lines
            outcomes.add("repaired")
        except CorruptJournal:
            outcomes.add("old")
        repair(root)
        assert (lines_of(root), verify(root)) == (lines, []), number
        shutil.rmtree(root)
        shutil.copytree(quick / "damaged", root)
        number += 1
    assert (outcomes, number > 100) == ({"old", "repaired"}, True)


def test_a_row_appended_before_an_interrupted_repair_took_hold_is_not_lost(root: Path) -> None:
    """The repair was decided, its process died, and somebody who had the session open went on."""
    made(root)
    with closing(GitStore(root)) as other:
        other.append("s1", [titled(25)])
        replace(segments(root)[0], b"title 2", b"title Z")
        number = 1
        while (
            killed_at(number, lambda: repair_without_commit(root)) and not (folder(root) / "repair").exists()
        ):
            number += 1
        assert (folder(root) / "repair").exists()
        assert other.append("s1", [titled(26)]) == [26]
    with closing(GitStore(root)) as store:
        assert store.append("s1", [titled(27)]) == [27]
    repair(root)
    with closing(GitStore(root)) as store:
        assert [row.seq for row in store.read("s1")] == list(range(1, 28))
    assert verify(root) == []


def test_a_folder_that_is_no_repair_of_ours_stops_nothing(root: Path) -> None:
    lines = made(root)
    (folder(root) / "repair" / "new").mkdir(parents=True)
    with closing(GitStore(root)) as store:
        assert store.append("s1", [titled(25)]) == [25]
        assert list(store.read_lines("s1"))[:24] == lines
    assert verify(root) == []


def test_a_planted_repair_reaches_nothing_outside_the_session(root: Path) -> None:
    lines = made(root)
    (root / "victim").write_text("kept")
    planted = folder(root) / "repair"
    (planted / "new").mkdir(parents=True)
    position = (folder(root) / "acknowledged").read_bytes()
    for name in ("base", "position"):
        (planted / name).write_bytes(position)
    (planted / "remove").write_text(f"../victim\n{root / 'victim'}\nfiles/../../victim\n")
    assert lines_of(root) == lines
    with closing(GitStore(root)) as store:
        store.append("s1", [titled(25)])
    assert ((root / "victim").read_text(), planted.exists()) == ("kept", False)


def test_backups_that_were_not_finished_are_removed_and_whole_ones_stay(root: Path) -> None:
    made(root)
    bit_flip(root)
    first = Path(repair(root).backup)
    half = root / ".backups" / ".new-0123456789abcdef"
    half.mkdir()
    os.utime(half, (0, 0))
    bit_flip(root)
    second = Path(repair(root).backup)
    assert sorted((root / ".backups").iterdir()) == sorted([first, second])
