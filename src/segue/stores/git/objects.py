"""Git's object formats, as far as commits need them. Packs are libgit2's work.

Only its object database is used, never its repository: so no configuration, environment variable, hook,
filter, attribute, template or signing key has any say, and no lock file is needed or left behind.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from segue.stores.git.layout import write_all

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
FILE, DIRECTORY = b"100644", b"40000"
_KINDS = {
    kind.name.lower().encode(): kind
    for kind in (ObjectType.COMMIT, ObjectType.TREE, ObjectType.BLOB, ObjectType.TAG)
}
LARGE = 8 << 20
"""Bytes from which a blob is written in little memory, and stays out of packs: their maker holds several whole."""
Entries = dict[bytes, tuple[bytes, bytes]]
"""Name -> mode and binary object id."""


class Written(str):
    """The id of a blob that is written already."""


Addition = bytes | Written | dict[str, "Addition"]
"""A file: its content, or its blob; or a directory of additions."""


class DamagedObject(Exception):
    """An object of the derived history is missing or unreadable."""


class Objects:
    """The objects under `.git/objects`.

    `recent` are trees and commits of the last commit, so that the next one need not look through the packs for
    them: they are believed as long as their loose files are there.
    """

    def __init__(self, path: Path, recent: Mapping[str, bytes]) -> None:
        self.path = path
        self.written: dict[str, bytes] = {}
        """Trees and commits written through this object: what will be `recent` next time."""
        self._ids: list[str] = []
        """Of all that was written, or was there already."""
        self._recent = recent
        self._odb: pygit2.Odb | None = None

    def read(self, oid: str, kind: ObjectType) -> bytes:
        """Raises DamagedObject."""
        if oid in self._recent and _has_content(self._loose(oid)):
            return self._recent[oid]
        found, data = self.read_any(oid)
        if found != kind:
            raise DamagedObject(f"{oid} is no {kind.name}")
        return data

    def read_any(self, oid: str) -> tuple[ObjectType, bytes]:
        """An object of any kind, checked against its id. Raises DamagedObject."""
        loose = read_loose(self._loose(oid))
        if loose is not None:
            return loose
        try:
            self._odb = self._odb or pygit2.Odb(str(self.path))
            found, data = self._odb.read(pygit2.Oid(hex=oid))
        except (KeyError, ValueError, OSError, pygit2.GitError) as error:
            raise DamagedObject(oid) from error
        return ObjectType(found), bytes(data)

    def missing(self) -> list[str]:
        """Ids of objects that were written through this one and are not there any more. Raises OSError."""
        gone = [oid for oid in self._ids if not self.is_loose(oid)]
        if not gone:
            return []
        packs = pygit2.Odb(str(self.path))
        return [oid for oid in gone if not packs.exists(pygit2.Oid(hex=oid))]

    def is_loose(self, oid: str) -> bool:
        """Raises OSError."""
        return _has_content(self._loose(oid))

    def write(self, kind: ObjectType, data: bytes) -> str:
        """The object's id, hexadecimal. Written loose, as git does, but without asking the packs. Raises OSError."""
        raw = b"%s %d\0%s" % (kind.name.lower().encode(), len(data), data)
        oid = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        self._ids.append(oid)
        if kind != ObjectType.BLOB:
            self.written[oid] = data
        if not _has_content(self._loose(oid)):
            self._write_loose(oid, [zlib.compress(raw, 1)])
        return oid

    def write_blob(self, data: bytes) -> Written:
        """Raises OSError."""
        return Written(self.write(ObjectType.BLOB, data))

    def write_file(self, path: Path) -> Written:
        """The blob of a file of any size, in little memory; durable, because it will not be packed. Raises OSError."""
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        for part in _parts(path):
            digest.update(part)
        oid = Written(digest.hexdigest())
        self._ids.append(oid)
        if not _has_content(self._loose(oid)):
            self._write_loose(oid, _compressed(path), sync=True)
        return oid

    def _write_loose(self, oid: str, data: Iterable[bytes], *, sync: bool = False) -> None:
        folder = f"{self.path}/{oid[:2]}"
        building = f"{folder}/tmp_obj_{secrets.token_hex(8)}"  # a name that `git gc` would clean up
        try:
            descriptor = os.open(building, _NEW, 0o600)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = os.open(building, _NEW, 0o600)
        try:
            for part in data:
                write_all(descriptor, part)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(building, self._loose(oid))

    def _loose(self, oid: str) -> str:
        return f"{self.path}/{oid[:2]}/{oid[2:]}"

    def grow(self, tree: str | None, additions: Mapping[str, Addition]) -> str:
        """The tree with the additions in it; only the directories on their way are read and written."""
        entries = parse_tree(self.read(tree, ObjectType.TREE)) if tree else {}
        for name, addition in additions.items():
            entries[name.encode()] = self._added(entries.get(name.encode()), addition)
        return self.write(ObjectType.TREE, format_tree(entries))

    def _added(self, old: tuple[bytes, bytes] | None, addition: Addition) -> tuple[bytes, bytes]:
        if isinstance(addition, Written):
            return FILE, bytes.fromhex(addition)
        if isinstance(addition, bytes):
            return FILE, bytes.fromhex(self.write(ObjectType.BLOB, addition))
        subtree = old[1].hex() if old and old[0] == DIRECTORY else None
        return DIRECTORY, bytes.fromhex(self.grow(subtree, addition))


def read_loose(path: str) -> tuple[ObjectType, bytes] | None:
    """Kind and content of a loose object, None when there is no such file. Raises DamagedObject.

    Not through libgit2, which never returns from one that is cut short.
    """
    oid = "".join(path.rsplit("/", 2)[1:])
    try:
        with open(path, "rb") as file:
            raw = zlib.decompress(file.read())
    except FileNotFoundError:
        return None
    except (OSError, zlib.error) as error:
        raise DamagedObject(oid) from error
    if hashlib.sha1(raw, usedforsecurity=False).hexdigest() != oid:
        raise DamagedObject(oid)
    header, _, data = raw.partition(b"\0")
    kind = _KINDS.get(header.partition(b" ")[0])
    if kind is None:
        raise DamagedObject(oid)
    return kind, data


def _parts(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            yield part


def _compressed(path: Path) -> Iterator[bytes]:
    compressor = zlib.compressobj(1)
    yield compressor.compress(b"blob %d\0" % path.stat().st_size)
    for part in _parts(path):
        yield compressor.compress(part)
    yield compressor.flush()


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def is_whole(path: Path) -> bool:
    """Whether a loose object is there and has the bytes of its name; in little memory."""
    inflater, digest = zlib.decompressobj(), hashlib.sha1(usedforsecurity=False)
    try:
        for part in _parts(path):
            while part:
                digest.update(inflater.decompress(part, 1 << 20))
                part = inflater.unconsumed_tail
        digest.update(inflater.flush())
    except (OSError, zlib.error):
        return False
    return inflater.eof and digest.hexdigest() == path.parent.name + path.name


def is_large(path: Path) -> bool:
    """Whether a loose object is one that stays loose. Raises OSError."""
    if path.stat().st_size < LARGE // 1032:  # nothing is compressed more than that
        return False
    with open(path, "rb") as file:
        header = zlib.decompressobj().decompress(file.read(64), 64).split(b"\0")[0].split()
    return len(header) == 2 and header[1].isdigit() and int(header[1]) >= LARGE


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


def add_path(additions: dict[str, Any], path: str, content: bytes | Written) -> None:
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
