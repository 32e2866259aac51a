"""What a crash, a power loss or damage leaves in a git session, and what comes of it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from segue.errors import CorruptJournal
from segue.stores.git import GitStore
from segue.stores.git.session import framed
from segue.testing.store_process import control_row

LAST = '{"title":"Zwölf 🦊"}'.encode()


def segment(root: Path, first: int = 1) -> Path:
    return root / "s1" / "history" / f"{first:012d}.jsonl"


def write(root: Path, *counts: int, segment_bytes: int = 4 << 20) -> bytes:
    """One append for each count; gives the first segment's bytes."""
    with closing(GitStore(root, segment_bytes=segment_bytes)) as store:
        store.create("s1")
        for count in counts:
            store.append("s1", [control_row() for _ in range(count)])
    return segment(root).read_bytes()


def seqs(root: Path) -> list[int]:
    with closing(GitStore(root)) as store:
        return [row.seq for row in store.read("s1")]


def titles(root: Path) -> list[str]:
    with closing(GitStore(root)) as store:
        return [row.payload["title"] for row in store.read("s1")]


def test_a_last_line_cut_at_any_byte_is_dropped_and_the_next_append_is_whole(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    good = write(root, 1, 1, 1, 1)
    line = framed("s1", 5, [control_row(LAST)])
    shutil.copytree(root, tmp_path / "start")
    for cut in range(1, len(line)):
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "start", root)
        segment(root).write_bytes(good + line[:cut])
        with closing(GitStore(root)) as store:
            before = [row.seq for row in store.read("s1")]
            after = store.append("s1", [control_row()])
            reports = store.reports("s1")
        assert (before, after, seqs(root)) == ([1, 2, 3, 4], [5], [1, 2, 3, 4, 5])
        assert len(reports) == 1
        assert f"dropped a torn append of {cut} bytes" in reports[0]
        assert [path.read_bytes() for path in (root / "s1" / "torn").iterdir()] == [line[:cut]]


def test_an_append_of_three_rows_cut_at_any_byte_is_dropped_whole(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    good = write(root, 2)
    batch = framed("s1", 3, [control_row(), control_row(), control_row()])
    for cut in range(1, len(batch)):
        segment(root).write_bytes(good + batch[:cut])
        assert seqs(root) == [1, 2]
        assert segment(root).read_bytes() == good


def test_a_complete_append_that_was_not_acknowledged_is_published(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    good = write(root, 2)
    segment(root).write_bytes(good + framed("s1", 3, [control_row(), control_row()]))
    assert seqs(root) == [1, 2, 3, 4]


def test_nul_bytes_behind_the_last_row_are_dropped(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    good = write(root, 2)
    segment(root).write_bytes(good + b"\0" * 4096)
    assert (seqs(root), segment(root).read_bytes()) == ([1, 2], good)


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\0" * 96])
def test_a_lost_position_is_found_again_from_the_rows(tmp_path: Path, content: bytes | None) -> None:
    root = tmp_path / "sessions"
    write(root, *[2] * 8, segment_bytes=600)
    path = root / "s1" / "acknowledged"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert seqs(root) == list(range(1, 17))
    assert write(root, 1)
    assert seqs(root) == list(range(1, 18))


def test_a_lost_meta_file_is_written_again_by_the_next_append(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    write(root, 1)
    (root / "s1" / "meta.json").unlink()
    write(root, 1)
    assert '"id": "s1"' in (root / "s1" / "meta.json").read_text()


def damaged(kind: str, lines: list[bytes]) -> list[bytes]:
    """Eight lines, damaged where line 5 is."""
    other = {
        "nul line": [b"\0" * 300 + b"\n", lines[4]],
        "duplicate": [lines[3]],
        "gap": [],
        "bit flip": [lines[4].replace(b"a title", b"a tITle")],
        "half a line": [lines[4][:50]],
    }
    return [*lines[:4], *other[kind], *lines[5:]]


KINDS = ["nul line", "duplicate", "gap", "bit flip", "half a line"]


@pytest.mark.parametrize("kind", KINDS)
def test_damage_in_the_middle_is_refused_on_reading_and_writing(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "sessions"
    lines = write(root, *[1] * 8).splitlines(keepends=True)
    bad = b"".join(damaged(kind, lines))
    segment(root).write_bytes(bad)
    with closing(GitStore(root)) as store:
        with pytest.raises(CorruptJournal) as on_read:
            list(store.read("s1"))
        with pytest.raises(CorruptJournal):
            store.append("s1", [control_row()])
    assert on_read.value.path == str(segment(root))
    if kind != "bit flip":  # every line is a row: only the checksum of the whole tells
        assert (on_read.value.line, on_read.value.offset) == (5, len(b"".join(lines[:4])))
    assert segment(root).read_bytes() == bad


@pytest.mark.parametrize("kind", KINDS)
def test_damage_in_a_full_segment_is_refused_on_reading(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "sessions"
    write(root, *[1] * 16, segment_bytes=1300)
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(b"".join(damaged(kind, lines)))
    assert len(lines) < 16
    with pytest.raises(CorruptJournal, match=segment(root).name):
        seqs(root)


def test_damage_is_refused_even_when_the_position_is_lost_too(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    lines = write(root, *[1] * 8).splitlines(keepends=True)
    segment(root).write_bytes(b"".join(damaged("nul line", lines)))
    (root / "s1" / "acknowledged").unlink()
    with pytest.raises(CorruptJournal) as error:
        seqs(root)
    assert error.value.line == 5


def torn(root: Path, line: int) -> None:
    """A power loss: one line of the last append did not reach the disk, nor did the small file."""
    lines = segment(root).read_bytes().splitlines(keepends=True)
    lines[line] = b"\0" * (len(lines[line]) - 1) + b"\n"
    segment(root).write_bytes(b"".join(lines))
    (root / "s1" / "acknowledged").unlink()


@pytest.mark.parametrize("line", [2, 3])
def test_a_last_append_whose_later_rows_reached_the_disk_alone_is_dropped(tmp_path: Path, line: int) -> None:
    root = tmp_path / "sessions"
    write(root, 1, 1, 3)
    torn(root, line)
    assert seqs(root) == [1, 2]
    with closing(GitStore(root)) as store:
        assert store.append("s1", [control_row()]) == [3]


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_damaged_append_before_another_one_is_refused_though_the_position_is_lost(
    tmp_path: Path, line: int
) -> None:
    root = tmp_path / "sessions"
    write(root, 1, 3, 1, 3)
    torn(root, line)
    with pytest.raises(CorruptJournal, match="damage before other rows"):
        seqs(root)


def test_an_acknowledged_length_beyond_the_file_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    data = write(root, 1, 1)
    segment(root).write_bytes(data[:-10])
    with pytest.raises(CorruptJournal, match="line 2"):
        seqs(root)
    with closing(GitStore(root)) as store, pytest.raises(CorruptJournal):
        store.append("s1", [control_row()])


def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    write(root, *[2] * 8, segment_bytes=600)
    segment(root).unlink()
    with pytest.raises(CorruptJournal, match="missing"):
        seqs(root)


def test_a_new_segment_that_a_crash_left_empty_is_no_obstacle(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    write(root, 2)
    segment(root, 3).touch()
    assert seqs(root) == [1, 2]
    write(root, 1, segment_bytes=10)
    assert seqs(root) == [1, 2, 3]


def test_rows_of_a_new_segment_that_were_not_acknowledged_are_published(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    write(root, 2)
    segment(root, 3).write_bytes(framed("s1", 3, [control_row(LAST), control_row(LAST)]))
    assert titles(root) == ["a title", "a title", "Zwölf 🦊", "Zwölf 🦊"]


@pytest.mark.parametrize("before", [0, 2], ids=["no segment", "a full segment"])
@pytest.mark.parametrize("whole", [0, 1, 2], ids=["nothing", "a torn append", "a whole append"])
def test_a_new_segment_of_a_process_that_died_is_healed_by_one_that_has_the_session_open(
    tmp_path: Path, before: int, whole: int
) -> None:
    root = tmp_path / "sessions"
    with closing(GitStore(root, segment_bytes=10)) as store:
        store.create("s1")
        store.append("s1", [control_row() for _ in range(before)])
        rows = framed("s1", before + 1, [control_row(LAST), control_row(LAST)])
        segment(root, before + 1).write_bytes(rows[: len(rows) * whole // 2])
        adopted = 2 if whole == 2 else 0
        assert store.append("s1", [control_row()]) == [before + adopted + 1]
        assert [row.seq for row in store.read("s1")] == list(range(1, before + adopted + 2))


def test_a_row_of_another_session_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    write(root, 1)
    with closing(GitStore(root)) as store:
        store.create("s2")
    shutil.rmtree(root / "s2" / "history")
    shutil.copytree(root / "s1" / "history", root / "s2" / "history")
    shutil.copy(root / "s1" / "acknowledged", root / "s2" / "acknowledged")
    with closing(GitStore(root)) as store, pytest.raises(CorruptJournal, match="session s1"):
        list(store.read("s2"))


@pytest.mark.parametrize("after", [0, 1, 1000, 5000, 9990, 9999, 10_000])
def test_reading_from_anywhere_in_many_segments_gives_the_rows_after_it(tmp_path: Path, after: int) -> None:
    root = tmp_path / "sessions"
    write(root, *[1000] * 10, segment_bytes=300_000)
    with closing(GitStore(root)) as store:
        assert [row.seq for row in store.read("s1", after)] == list(range(after + 1, 10_001))
