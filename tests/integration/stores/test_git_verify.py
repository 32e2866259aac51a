"""`verify`: each kind of damage is found, named by file, line, byte and row, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import threading
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from damage import (
    JOURNAL,
    ROWS,
    bit_flip,
    folder,
    found,
    made,
    replace,
    segments,
    snapshot,
    the_blob,
    titled,
    verify,
)

from segue.stores.git import GitStore
from segue.stores.git.problems import damage_in
from segue.stores.git.survey import Survey
from segue.testing.store_process import control_row


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def test_a_whole_session_has_no_problems(root: Path) -> None:
    made(root)
    assert verify(root) == []


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
@pytest.mark.parametrize("kind", JOURNAL)
def test_damage_of_the_journal_is_found_and_nothing_is_changed(
    root: Path, kind: str, committed: bool
) -> None:
    do, if_committed, if_not = JOURNAL[kind]
    made(root, committed=ROWS if committed else 0)
    do(root)
    before = snapshot(root)
    assert found(damage_in(verify(root))) == (if_committed if committed else if_not)
    assert snapshot(root) == before


def test_the_line_and_byte_of_a_damaged_row_are_named(root: Path) -> None:
    made(root)
    bit_flip(root)
    (problem,) = verify(root)
    lines = segments(root)[1].read_bytes().split(b"\n")
    offset = len(lines[0]) + len(lines[1]) + 2
    assert (
        problem.describe() == f"{segments(root)[1]}, line 3 (byte {offset}): row 12: not what was committed"
    )
    assert problem.repair == "restored from the commits"


def test_of_a_changed_row_that_is_not_committed_the_possible_lines_are_named(root: Path) -> None:
    made(root, committed=12)
    replace(segments(root)[1], b"title 16", b"title 1!")
    (problem,) = verify(root)
    assert (problem.kind, problem.line, problem.last_line) == ("rows_unproven", 4, 9)
    assert (problem.first_seq, problem.last_seq, problem.lost) == (13, 18, False)


def test_a_torn_append_and_a_lost_position_are_notes(root: Path) -> None:
    made(root)
    with open(segments(root)[-1], "ab") as file:
        file.write(b'{"id":"evt_')
    (folder(root) / "acknowledged").unlink()
    problems = verify(root)
    assert [(problem.kind, problem.note) for problem in problems] == [
        ("position_damaged", True),
        ("torn_append", True),
    ]


def test_rows_behind_the_position_are_a_note(root: Path) -> None:
    made(root)
    position = (folder(root) / "acknowledged").read_bytes()
    with closing(GitStore(root)) as store:
        store.append("s1", [titled(25), titled(26)])
    (folder(root) / "acknowledged").write_bytes(position)
    (problem,) = verify(root)
    assert (problem.kind, problem.note) == ("not_published", True)
    assert problem.detail == "rows 25 to 26: complete, but not acknowledged"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (None, "meta_missing"),
        (b"", "meta_damaged"),
        (b"\0" * 80, "meta_damaged"),
        (b'{"format": 1, "id": "other", "created_at": "2026"}', "meta_foreign"),
        (b'{"format": 2, "id": "s1", "created_at": "2026", "new": {}}', "format_newer"),
    ],
)
def test_meta_that_is_not_this_sessions_is_found(root: Path, content: bytes | None, kind: str) -> None:
    made(root)
    path = folder(root) / "meta.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert [problem.kind for problem in verify(root)] == [kind]


def test_a_renamed_and_a_copied_folder_say_what_to_do(root: Path) -> None:
    made(root)
    shutil.copytree(folder(root), root / "s2")
    (copied,) = verify(root, "s2")
    shutil.move(root / "s2", root / "other")
    shutil.rmtree(root / "s1")
    (renamed,) = verify(root, "other")
    assert [(problem.kind, problem.repair) for problem in (copied, renamed)] == [
        (
            "misplaced",
            "not repaired: it is a copy of s1, which is there too: move one of them away; a session is never two",
        ),
        ("misplaced", "not repaired: rename the folder to s1, and it is whole again"),
    ]


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_a_damaged_blob_is_found(root: Path, committed: bool) -> None:
    made(root, committed=ROWS if committed else 0)
    the_blob(root).write_bytes(b"a kopt file")
    (problem,) = verify(root)
    assert (problem.kind, problem.path, problem.lost) == ("blob_damaged", str(the_blob(root)), not committed)


def test_a_missing_blob_is_found_when_a_row_names_it(root: Path) -> None:
    with closing(GitStore(root)) as store:
        store.create("s1")
        digest = store.put_blob("s1", "files", b"a kept file")
        row = titled(1)
        payload = b'{"turn_id":"t","path":"/a","existed":true,"blob":"%s"}' % digest.encode()
        lease = store.acquire("s1", holder="test")
        store.append(
            "s1", [type(row)(row.id, "test", "FILE_BACKED_UP", payload, row.created_at)], lease=lease
        )
    path = the_blob(root)
    path.unlink()
    (problem,) = verify(root)
    assert (problem.kind, problem.path, problem.lost) == ("blob_missing", str(path), True)


def objects(root: Path) -> list[Path]:
    return sorted(path for path in (folder(root) / ".git" / "objects").glob("??/*") if len(path.name) == 38)


def test_any_damaged_object_is_found(root: Path) -> None:
    made(root)
    for path in objects(root):
        whole = path.read_bytes()
        path.write_bytes(b"")
        assert {problem.kind for problem in verify(root)} == {"git_damaged"}, path
        path.write_bytes(whole)
    assert verify(root) == []


def test_commits_that_differ_from_the_journal_are_found(root: Path) -> None:
    made(root)
    path = segments(root)[0]
    replace(path, b"title 2", b"title Z")
    data = path.read_bytes()
    sealed = folder(root) / "sealed"
    first, *others = sealed.read_bytes().splitlines(keepends=True)
    sealed.write_bytes(b"".join([first.replace(first.split()[2], b"%08x" % zlib.crc32(data)), *others]))
    (problem,) = verify(root)
    assert (problem.kind, problem.detail) == (
        "git_differs",
        "row 2: committed otherwise than the journal has it",
    )


@pytest.mark.parametrize(
    ("name", "content"), [("HEAD", b"ref: refs/heads/other\n"), ("config", b"[core]\n\tbare = false\n")]
)
def test_a_repository_that_is_not_set_up_as_ours_is_found(root: Path, name: str, content: bytes) -> None:
    made(root)
    (folder(root) / ".git" / name).write_bytes(content)
    (problem,) = verify(root)
    assert (problem.kind, Path(problem.path).name) == ("git_settings", name)


def test_links_strays_and_leftovers_are_found(root: Path, tmp_path: Path) -> None:
    made(root)
    (folder(root) / "files" / "planted").symlink_to(tmp_path)
    (folder(root) / "notes.txt").write_text("mine")
    half = folder(root) / "files" / ".new-0123456789abcdef"
    half.write_text("half")
    os.utime(half, (0, 0))
    assert sorted((Path(problem.path).name, problem.kind, problem.note) for problem in verify(root)) == [
        (".new-0123456789abcdef", "leftover", True),
        ("notes.txt", "stray", True),
        ("planted", "link", False),
    ]


def test_a_folder_that_others_may_read_is_noted(root: Path) -> None:
    made(root)
    os.chmod(folder(root), 0o755)
    (problem,) = verify(root)
    assert (problem.kind, problem.note) == ("permissions", True)


def test_a_journal_in_a_folder_whose_name_is_no_sessions_is_listed(root: Path) -> None:
    made(root)
    (folder(root)).rename(root / "My Session (copy)")
    with closing(GitStore(root)) as store:
        assert store.unknown_folders() == [root / "My Session (copy)"]


def test_segments_that_begin_while_it_looks_are_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = Survey._piece
    with closing(GitStore(tmp_path / "sessions", segment_bytes=300)) as store:
        store.create("s1")
        store.append("s1", [control_row()])

        def meanwhile(survey: Survey, first: int) -> object:
            for _ in range(3):
                store.append("s1", [control_row(), control_row()])
            return piece(survey, first)

        monkeypatch.setattr(Survey, "_piece", meanwhile)
        assert [problem for problem in store.verify("s1") if not problem.note] == []


def test_nothing_is_found_beside_a_writer_at_work(root: Path) -> None:
    made(root)
    stop = threading.Event()

    def write() -> None:
        with closing(GitStore(root, segment_bytes=1000)) as store:
            number = 25
            while not stop.is_set():
                store.put_blob("s1", "context", b"%d" % number)
                store.append("s1", [titled(number), titled(number + 1)])
                store.commit("s1", f"turn {number}")
                number += 2

    writer = threading.Thread(target=write)
    writer.start()
    try:
        problems = [verify(root) for _ in range(15)]
    finally:
        stop.set()
        writer.join()
    assert problems == [[]] * 15
    assert verify(root) == []
