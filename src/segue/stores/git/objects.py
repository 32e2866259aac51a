"""Git's object formats, as far as commits need them. Reading and writing objects is libgit2's work.

Only its object database is used, never its repository: so no configuration, environment variable, hook,
filter, attribute, template or signing key has any say, and no lock file is needed or left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

FILE, DIRECTORY = b"100644", b"40000"
Entries = dict[bytes, tuple[bytes, bytes]]
"""Name -> mode and binary object id."""
Addition = bytes | dict[str, "Addition"]
"""A file's content, or a directory of additions."""


class DamagedObject(Exception):
    """An object of the derived history is missing or unreadable."""


class Objects:
    """The objects under `.git/objects`."""

    def __init__(self, path: Path) -> None:
        self._odb = pygit2.Odb(str(path))

    def read(self, oid: str, kind: ObjectType) -> bytes:
        """Raises DamagedObject."""
        try:
            found, data = self._odb.read(pygit2.Oid(hex=oid))
        except (KeyError, ValueError, OSError, pygit2.GitError) as error:
            raise DamagedObject(oid) from error
        if found != kind:
            raise DamagedObject(f"{oid} is no {kind.name}")
        return bytes(data)

    def write(self, kind: ObjectType, data: bytes) -> str:
        """The object's id, hexadecimal."""
        return str(self._odb.write(kind, data))

    def grow(self, tree: str | None, additions: Mapping[str, Addition]) -> str:
        """The tree with the additions in it; only the directories on their way are read and written."""
        entries = parse_tree(self.read(tree, ObjectType.TREE)) if tree else {}
        for name, addition in additions.items():
            entries[name.encode()] = self._added(entries.get(name.encode()), addition)
        return self.write(ObjectType.TREE, format_tree(entries))

    def _added(self, old: tuple[bytes, bytes] | None, addition: Addition) -> tuple[bytes, bytes]:
        if isinstance(addition, bytes):
            return FILE, bytes.fromhex(self.write(ObjectType.BLOB, addition))
        subtree = old[1].hex() if old and old[0] == DIRECTORY else None
        return DIRECTORY, bytes.fromhex(self.grow(subtree, addition))


def parse_tree(data: bytes) -> Entries:
    return dict(_tree_entries(data))


def format_tree(entries: Entries) -> bytes:
    """Sorted as git wants it: a directory as if its name ended with a slash."""
    names = sorted(entries, key=lambda name: name + b"/" if entries[name][0] == DIRECTORY else name)
    return b"".join(entries[name][0] + b" " + name + b"\0" + entries[name][1] for name in names)


def format_commit(tree: str, parent: str | None, message: str, seconds: int) -> bytes:
    identity = f"Segue <segue@localhost> {seconds} +0000"
    lines = [
        f"tree {tree}",
        *([f"parent {parent}"] if parent else []),
        f"author {identity}",
        f"committer {identity}",
    ]
    return "\n".join([*lines, "", message]).encode("utf-8", "replace").replace(b"\0", b"?")


def add_path(additions: dict[str, Any], path: str, content: bytes) -> None:
    """Put a file into nested additions."""
    *directories, name = path.split("/")
    for directory in directories:
        additions = additions.setdefault(directory, {})
    additions[name] = content


def _tree_entries(data: bytes) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    offset = 0
    while offset < len(data):
        space = data.index(b" ", offset)
        end = data.index(b"\0", space)
        yield data[space + 1 : end], (data[offset:space], data[end + 1 : end + 21])
        offset = end + 21
