"""The model of a disk keeps what POSIX promises, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.disk import Disk, Link, Node, Op, Pieces, Rename, Truncate, Unlink, Write

HOME = Path("/home/somebody/sessions")


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """One that has `there` with `old content`."""
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "there").write_bytes(b"old content")
    return Disk(HOME, tmp_path / "before")


def state(disk: Disk, target: Path, *kept: tuple[Op, Pieces | None]) -> dict[str, bytes]:
    disk.write_state(kept, target)
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def made(disk: Disk, name: str) -> tuple[Link, Node]:
    node = Node(HOME / name)
    return Link(1, 1, HOME / name, (disk.root,), node), node


def write(node: Node, data: bytes, offset: int = 0) -> Write:
    return Write(2, 2, node.path, (node,), offset, data)


def test_data_without_an_entry_is_nowhere(disk: Disk, tmp_path: Path) -> None:
    _, node = made(disk, "new")
    assert state(disk, tmp_path / "after", (write(node, b"data"), None)) == {"there": b"old content"}


def test_an_entry_without_data_is_an_empty_file(disk: Disk, tmp_path: Path) -> None:
    link, _ = made(disk, "new")
    assert state(disk, tmp_path / "after", (link, None)) == {"there": b"old content", "new": b""}


def test_a_rename_can_come_before_the_data(disk: Disk, tmp_path: Path) -> None:
    link, node = made(disk, "new")
    rename = Rename(3, 3, HOME / "there", (disk.root, disk.root), HOME / "new", node)
    assert state(disk, tmp_path / "after", (link, None), (rename, None)) == {"there": b""}


def test_a_torn_write_has_its_length_and_zeros(disk: Disk, tmp_path: Path) -> None:
    link, node = made(disk, "new")
    after = state(disk, tmp_path / "after", (link, None), (write(node, b"12345678"), ((0, 2), (6, 8))))
    assert after["new"] == b"12\0\0\0\x0078"


def test_a_torn_write_over_old_data_leaves_old_data(disk: Disk, tmp_path: Path) -> None:
    node = disk.find(HOME / "there")
    assert node is not None
    assert (
        state(disk, tmp_path / "after", (write(node, b"NEW CONTENT"), ((4, 11),)))["there"] == b"old CONTENT"
    )


def test_a_cut_file_and_a_removed_one(disk: Disk, tmp_path: Path) -> None:
    node = disk.find(HOME / "there")
    assert node is not None
    cut = Truncate(1, 1, node.path, (node,), 3)
    removed = Unlink(2, 2, node.path, (disk.root,))
    assert state(disk, tmp_path / "cut", (cut, None)) == {"there": b"old"}
    assert state(disk, tmp_path / "removed", (cut, None), (removed, None)) == {}
