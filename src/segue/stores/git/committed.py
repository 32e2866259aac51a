"""The rows and blobs that the commits have: the second copy, from which damaged ones are restored.

Every object that is read is checked against its id, so what is given here is what was committed.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections.abc import Iterator

import pygit2
from pygit2.enums import ObjectType

from segue.stores.git.commits import Head, read_head
from segue.stores.git.layout import SessionPaths
from segue.stores.git.objects import DIRECTORY, DamagedObject, Objects, is_large, is_whole, parse_tree

_CHUNK = re.compile(rb"(\d{12})\.jsonl")
_FIRST_SEQ = re.compile(rb'\{"id":"[^"]*","session_id":"[^"]*","deployment_id":"[^"]*","seq":(\d+),')
_PARENT = re.compile(r"^parent ([0-9a-f]{40})$", re.MULTILINE)


class Committed:
    """Making it reads the trees of the last commit. The caller holds the commit lock, shared or not.

    Nothing is raised for damage: it is in `damaged`, and what is readable is given.
    """

    def __init__(self, paths: SessionPaths) -> None:
        self.damaged: list[str] = []
        """What is wrong with the objects, one sentence each."""
        self.head = Head()
        self._objects = Objects(paths.git / "objects", {})
        self._seen: set[str] = set()
        """Ids of objects that were read and are whole."""
        self._chunks: dict[int, str] = {}
        self._starts: list[int] = []
        self._blobs: dict[tuple[str, str], str] | None = None
        self._cached: tuple[int, list[bytes]] = (0, [])
        self._session_id = paths.session_id
        try:
            self.head = read_head(self._objects, paths)
        except DamagedObject as error:
            self.damaged.append(f"the last commit {error} is missing or damaged")
        self._index_rows()
        if self.damaged:
            self._search()
        self._starts = sorted(self._chunks)

    @property
    def seq(self) -> int:
        """Seq of the last row that can be read from here, 0 for none."""
        if not self._starts:
            return 0
        return self._starts[-1] + len(self._chunk(self._starts[-1])) - 1

    def lines(self, first: int, last: int) -> dict[int, bytes]:
        """The committed lines of these rows by seq, framing included; those it does not have are left out."""
        found: dict[int, bytes] = {}
        place = max(bisect.bisect_right(self._starts, first) - 1, 0)
        for start in self._starts[place:]:
            if start > last:
                break
            for seq, line in enumerate(self._chunk(start), start):
                if first <= seq <= last:
                    found[seq] = line
        return found

    def blob(self, folder: str, digest: str) -> bytes | None:
        """The bytes of a blob, None when they are not here."""
        oid = self._all_blobs().get((folder, digest))
        if oid is None:
            return None
        data = self._read(oid, ObjectType.BLOB, f"{folder}/{digest}")
        return data if data is not None and hashlib.sha256(data).hexdigest() == digest else None

    def has_blob(self, folder: str, digest: str) -> bool:
        return (folder, digest) in self._all_blobs()

    def check_everything(self) -> None:
        """Read every object that the branch reaches and that was not read yet; `damaged` says what is wrong."""
        commit = self.head.commit
        while commit is not None:
            data = self._read(commit, ObjectType.COMMIT, "a commit")
            if data is None:
                return
            text = data.decode("utf-8", "replace")
            self._check_tree(text[5:45])
            parent = _PARENT.search(text.partition("\n\n")[0])
            commit = parent[1] if parent else None

    def _check_tree(self, oid: str) -> None:
        waiting = [oid]
        while waiting:
            tree = waiting.pop()
            if tree in self._seen:
                continue
            for mode, child in self._entries(tree).values():
                if child.hex() in self._seen:
                    continue
                if mode == DIRECTORY:
                    waiting.append(child.hex())
                else:
                    self._check_file(child.hex())

    def _check_file(self, oid: str) -> None:
        path = self._objects.path / oid[:2] / oid[2:]
        if not path.exists() or not is_large(path):
            self._read(oid, ObjectType.BLOB, "a file")
        elif is_whole(path):
            self._seen.add(oid)
        else:
            self.damaged.append(f"a file: object {oid} is damaged")

    def _index_rows(self) -> None:
        for name, oid in self._files("history"):
            if match := _CHUNK.fullmatch(name):
                self._chunks[int(match[1])] = oid

    def _all_blobs(self) -> dict[tuple[str, str], str]:
        if self._blobs is None:
            self._blobs = {
                (folder, name.decode("ascii", "replace")): oid
                for folder in ("context", "files")
                for name, oid in self._files(folder)
            }
        return self._blobs

    def _files(self, top: str) -> Iterator[tuple[bytes, str]]:
        """Name and id of every file below a directory of the last commit's tree."""
        if self.head.tree is None:
            return
        entry = self._entries(self.head.tree).get(top.encode())
        waiting = [entry[1].hex()] if entry is not None else []
        while waiting:
            for name, (mode, child) in self._entries(waiting.pop()).items():
                if mode == DIRECTORY:
                    waiting.append(child.hex())
                else:
                    yield name, child.hex()

    def _entries(self, tree: str) -> dict[bytes, tuple[bytes, bytes]]:
        data = self._read(tree, ObjectType.TREE, "a directory")
        try:
            return parse_tree(data) if data is not None else {}
        except ValueError:
            self.damaged.append(f"{tree}: not a directory listing")
            return {}

    def _chunk(self, start: int) -> list[bytes]:
        if self._cached[0] != start:
            data = self._read(self._chunks[start], ObjectType.BLOB, f"rows from {start}") or b""
            self._cached = (start, data.split(b"\n")[:-1])
        return self._cached[1]

    def _read(self, oid: str, kind: ObjectType, what: str) -> bytes | None:
        try:
            data = self._objects.read(oid, kind)
        except DamagedObject as error:
            sentence = f"{what}: object {error} is missing or damaged"
            if sentence not in self.damaged:
                self.damaged.append(sentence)
            return None
        self._seen.add(oid)
        return data

    def _search(self) -> None:
        """The way to the rows is damaged: look through all objects for those that begin with a row of ours."""
        own = f'"session_id":"{self._session_id}"'.encode()
        try:
            database = pygit2.Odb(str(self._objects.path))
            for oid in database:
                try:
                    kind, data = self._objects.read_any(str(oid))
                except DamagedObject:
                    continue
                match = _FIRST_SEQ.match(data) if kind == ObjectType.BLOB else None
                if match is not None and own in match[0]:
                    self._keep_longest(int(match[1]), str(oid), data)
        except (OSError, pygit2.GitError):
            return

    def _keep_longest(self, first: int, oid: str, data: bytes) -> None:
        known = self._chunks.get(first)
        if known is None or known not in self._seen:
            self._chunks[first] = oid
            self._seen.add(oid)
