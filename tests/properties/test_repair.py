"""Whatever is done to a session's files is found, no row is lost without a word, and a repair makes all whole."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from damage import ROWS, SEGMENT_BYTES, made, titled

from segue.events.codec import decode_row
from segue.stores.git import GitStore
from segue.stores.git.problems import damage_in

EXAMPLES = 80


def flip(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def zero(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.randrange(1, 400))
    return data[:start] + b"\0" * (end - start) + data[end:]


def insert(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + chance.randbytes(chance.randrange(1, 50)) + data[place:]


def leave_out(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + data[place + chance.randrange(1, 400) :]


def repeat_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"".join(lines)


def swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(flip, flip, cut, zero, insert, leave_out, repeat_line, swap_lines),
    lambda data, chance: b"",
)


@pytest.fixture(scope="module")
def templates() -> Iterator[dict[int, tuple[Path, list[bytes]]]]:
    """Sessions that are committed up to a row, on a file system in memory where there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    found = {}
    for committed in (ROWS, ROWS // 2, 0):
        root = folder / str(committed)
        found[committed] = (root, made(root, committed=committed))
    yield found
    shutil.rmtree(folder)


def damage(root: Path, chance: random.Random) -> set[str]:
    """Change, empty or delete up to three files; gives the names of their folders and files."""
    touched = set()
    for _ in range(chance.choice([1, 1, 2, 3])):
        files = sorted(p for p in (root / "s1").rglob("*") if p.is_file() and p.parent.name != "lock")
        history = [path for path in files if path.parent.name == "history"]
        path = chance.choice(history if history and chance.random() < 0.6 else files)
        touched |= set(path.relative_to(root / "s1").parts)
        data = path.read_bytes()
        if chance.random() < 0.1:
            path.unlink()
        elif data:
            path.write_bytes(chance.choice(KINDS)(data, chance))
    return touched


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_any_damage_is_found_and_repaired_and_no_row_is_lost_without_a_word(
    templates: dict[int, tuple[Path, list[bytes]]], seed: int
) -> None:
    chance = random.Random(seed)
    committed = chance.choice(sorted(templates))
    template, lines = templates[committed]
    root = template.parent / "damaged"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root)
    touched = damage(root, chance)
    with closing(GitStore(root, segment_bytes=SEGMENT_BYTES)) as store:
        found = store.verify("s1")
        store.repair("s1")
        assert store.drain_commits(30)
        assert damage_in(store.verify("s1")) == []
        after = list(store.read_lines("s1"))
        assert store.append("s1", [titled(0)]) == [len(after) + 1]
    lost = {seq for seq, line in enumerate(after, 1) if decode_row(line).type == "ROW_LOST"}
    told = {seq for item in found if item.lost for seq in range(item.first_seq, item.last_seq + 1)}
    unproven = [item for item in found if item.kind == "rows_unproven"]
    doubtful = {seq for item in unproven for seq in range(item.first_seq, item.last_seq + 1)}
    pairs = enumerate(zip(after, lines, strict=False), 1)
    assert {seq for seq, (now, before) in pairs if now != before} <= lost | doubtful
    assert lost <= told
    assert not lost or committed < ROWS or ".git" in touched
    assert len(after) >= ROWS or (committed < ROWS and "acknowledged" in touched)
