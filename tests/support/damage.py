"""Making a session and damaging it, for the tests of `verify` and `repair`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from segue.events.codec import encode_json
from segue.ids import new_id, utc_now
from segue.stores.git import GitStore
from segue.stores.git.problems import Problem
from segue.stores.protocol import Draft

ROWS = 24
"""Rows of `made`: three of a kind in each append, an append in each turn."""
SEGMENT_BYTES = 1500
"""About seven rows: the session has four segments."""


def titled(number: int) -> Draft:
    payload = encode_json({"title": f"title {number}"})
    return Draft(new_id("evt"), "test", "SESSION_UPDATED", payload, utc_now())


def made(root: Path, *, committed: int = ROWS, session_id: str = "s1") -> list[bytes]:
    """A session of 24 titled rows and one blob in each folder, committed up to a row; gives its lines."""
    with closing(GitStore(root, segment_bytes=SEGMENT_BYTES)) as store:
        store.create(session_id)
        for first in range(1, ROWS + 1, 3):
            if first == 1:
                store.put_blob(session_id, "files", b"a kept file")
            store.append(session_id, [titled(number) for number in range(first, first + 3)])
            if first + 2 <= committed:
                store.commit(session_id, f"turn {first}")
                assert store.drain_commits(30)
        return list(store.read_lines(session_id))


def folder(root: Path) -> Path:
    return root / "s1"


def segments(root: Path) -> list[Path]:
    return sorted((folder(root) / "history").glob("*.jsonl"))


def replace(path: Path, old: bytes, new: bytes) -> int:
    """Replace one place in a file; gives where it is."""
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return data.index(old)


def verify(root: Path, session_id: str = "s1") -> list[Problem]:
    with closing(GitStore(root)) as store:
        return store.verify(session_id)


def found(problems: list[Problem]) -> list[tuple[str, int, int, int, bool]]:
    """Kind, line, first and last row, lost: what tests compare."""
    return [(item.kind, item.line, item.first_seq, item.last_seq, item.lost) for item in problems]


def lines_of(root: Path, session_id: str = "s1") -> list[bytes]:
    with closing(GitStore(root)) as store:
        return list(store.read_lines(session_id))


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def the_blob(root: Path) -> Path:
    return next(path for path in (folder(root) / "files").rglob("*") if path.is_file())


Problems = list[tuple[str, int, int, int, bool]]


def nul_line(root: Path) -> None:
    path = segments(root)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0" * 300 + b"\n", *lines[2:]]))


def nul_row(root: Path) -> None:
    path = segments(root)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0" * len(lines[2]), *lines[3:]]))


def gap(root: Path) -> None:
    path = segments(root)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *lines[4:]]))


def twice(root: Path) -> None:
    path = segments(root)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[2:]]))


def swapped(root: Path) -> None:
    path = segments(root)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))


def bit_flip(root: Path) -> None:
    replace(segments(root)[1], b"title 12", b"title 1:")


def last_row_cut(root: Path) -> None:
    path = segments(root)[-1]
    path.write_bytes(path.read_bytes()[:-10])


def last_segment_gone(root: Path) -> None:
    segments(root)[-1].unlink()


def segment_gone(root: Path) -> None:
    segments(root)[1].unlink()


def planted_segment(root: Path) -> None:
    lines = segments(root)[0].read_bytes().splitlines(keepends=True)
    (folder(root) / "history" / f"{3:012d}.jsonl").write_bytes(b"".join(lines[2:5]))


def wrong_checksum(root: Path) -> None:
    path = folder(root) / "sealed"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0].replace(lines[0].split()[2], b"00000000") + lines[1])


JOURNAL: dict[str, tuple[Callable[[Path], None], Problems, Problems]] = {
    "nul line": (nul_line, [("line_extra", 3, 0, 0, False)], [("line_extra", 3, 0, 0, False)]),
    "nul row": (
        nul_row,
        [("row_damaged", 3, 12, 13, False)],
        [("row_damaged", 3, 12, 13, True)],
    ),
    "gap": (gap, [("row_missing", 3, 12, 13, False)], [("row_missing", 3, 12, 13, True)]),
    "twice": (twice, [("line_extra", 4, 0, 0, False)], [("line_extra", 4, 0, 0, False)]),
    "swapped": (swapped, [("row_misplaced", 3, 13, 13, False)], [("row_misplaced", 3, 13, 13, False)]),
    "bit flip": (bit_flip, [("row_changed", 3, 12, 12, False)], [("rows_unproven", 1, 10, 18, False)]),
    "last row cut": (
        last_row_cut,
        [("row_damaged", 6, 24, 24, False)],
        [("row_damaged", 6, 24, 24, True)],
    ),
    "last segment gone": (
        last_segment_gone,
        [("segment_missing", 0, 19, 24, False)],
        [("segment_missing", 0, 19, 24, True)],
    ),
    "segment gone": (
        segment_gone,
        [("segment_missing", 0, 10, 18, False)],
        [("segment_missing", 0, 10, 18, True)],
    ),
    "planted segment": (
        planted_segment,
        [("segment_stray", 0, 0, 0, False)],
        [("segment_stray", 0, 0, 0, False)],
    ),
    "wrong checksum": (
        wrong_checksum,
        [("checksum_wrong", 0, 0, 0, False)],
        [("rows_unproven", 1, 1, 9, False)],
    ),
}
"""What is done, what is found when all is committed, and when nothing is."""
