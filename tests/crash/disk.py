"""A model of a disk: files, folders, and operations on them of which some may not have reached it.

A file's data is durable after fsync or fdatasync of the file, an entry of a folder after fsync of the folder: nothing
else is promised. What is not durable may be there or not, in any order; of a write, any part.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
Pieces = tuple[tuple[int, int], ...]
"""Start and end of the parts of a write that reached the disk."""


@dataclass(eq=False)
class Node:
    """A file, or a folder when it has entries."""

    path: Path
    """Where it was first seen."""
    entries: dict[str, Node] | None = None
    source: Path | None = None
    """The file with its content before the recording; None when it was made during it."""
    size: int = 0


@dataclass(eq=False)
class Op:
    time: int
    ended: int
    """Line of the log where the call returned."""
    path: Path
    nodes: tuple[Node, ...]
    """Syncing any of these makes it durable."""
    durable: int | None = field(default=None, init=False)
    """When it was made durable."""


@dataclass(eq=False)
class Link(Op):
    """`path` is now an entry, of the folder, for the node."""

    node: Node


@dataclass(eq=False)
class Unlink(Op):
    pass


@dataclass(eq=False)
class Rename(Op):
    """From `source` to `path`: both entries change, or none."""

    source: Path
    node: Node


@dataclass(eq=False)
class Write(Op):
    offset: int
    data: bytes


@dataclass(eq=False)
class Truncate(Op):
    size: int


class Disk:
    """The tree as the running program sees it, and as a crash leaves it."""

    def __init__(self, home: Path, source: Path) -> None:
        self.home = home
        """Where the program sees it."""
        self.root = _load(home, source)
        self._start = {node: dict(node.entries) for node in _folders(self.root) if node.entries is not None}

    def find(self, path: Path) -> Node | None:
        node = self.root
        for name in path.relative_to(self.home).parts:
            found = (node.entries or {}).get(name)
            if found is None:
                return None
            node = found
        return node

    def folder(self, path: Path) -> Node:
        node = self.find(path.parent)
        assert node is not None, f"{path.parent} is not known"
        return node

    def apply(self, op: Op) -> None:
        if isinstance(op, Write):
            op.nodes[0].size = max(op.nodes[0].size, op.offset + len(op.data))
        elif isinstance(op, Truncate):
            op.nodes[0].size = op.size
        else:
            _enter(op, lambda node: node.entries if node.entries is not None else {})

    def write_state(self, kept: Iterable[tuple[Op, Pieces | None]], target: Path) -> None:
        """Make the folder that a crash leaves when these operations reached the disk: wholly, or in pieces."""
        entries: dict[Node, dict[str, Node]] = {}
        contents: dict[Node, bytearray] = {}
        for op, pieces in kept:
            if isinstance(op, (Write, Truncate)):
                node = op.nodes[0]
                if node not in contents:
                    contents[node] = bytearray(node.source.read_bytes() if node.source else b"")
                _change(contents[node], op, pieces)
            else:
                _enter(op, lambda node: self._entries(entries, node))
        self._materialise(self.root, target, entries, contents)

    def _entries(self, entries: dict[Node, dict[str, Node]], node: Node) -> dict[str, Node]:
        if node not in entries:
            entries[node] = dict(self._start.get(node, {}))
        return entries[node]

    def _materialise(
        self,
        node: Node,
        target: Path,
        entries: dict[Node, dict[str, Node]],
        contents: Mapping[Node, bytearray],
    ) -> None:
        if node.entries is not None:
            target.mkdir(mode=0o700)
            for name, child in self._entries(entries, node).items():
                self._materialise(child, target / name, entries, contents)
        elif node in contents or node.source is None:
            target.write_bytes(contents.get(node, b""))
        else:
            shutil.copyfile(node.source, target)


def _load(path: Path, source: Path) -> Node:
    if source.is_dir():
        return Node(path, entries={child.name: _load(path / child.name, child) for child in source.iterdir()})
    return Node(path, source=source, size=source.stat().st_size)


def _folders(node: Node) -> Iterator[Node]:
    if node.entries is not None:
        yield node
        for child in node.entries.values():
            yield from _folders(child)


def _enter(op: Op, entries_of: object) -> None:
    assert callable(entries_of)
    if isinstance(op, Link):
        entries_of(op.nodes[0])[op.path.name] = op.node
    elif isinstance(op, Unlink):
        entries_of(op.nodes[0]).pop(op.path.name, None)
    elif isinstance(op, Rename):
        entries_of(op.nodes[0]).pop(op.source.name, None)
        entries_of(op.nodes[1])[op.path.name] = op.node


def _change(content: bytearray, op: Write | Truncate, pieces: Pieces | None) -> None:
    if isinstance(op, Truncate):
        del content[op.size :]
        content.extend(bytes(op.size - len(content)))
        return
    content.extend(bytes(max(0, op.offset + len(op.data) - len(content))))
    for start, end in ((0, len(op.data)),) if pieces is None else pieces:
        content[op.offset + start : op.offset + end] = op.data[start:end]
