"""Blobs against their names, the rows that name them, and the log that commits read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from segue.errors import InvalidEvent
from segue.events.codec import decode_row
from segue.stores.git import blobs
from segue.stores.git.committed import Committed
from segue.stores.git.layout import SessionPaths
from segue.stores.git.problems import Problem

NAMED_BY = {
    "CALL_STARTED": ("context", "context"),
    "FILE_BACKED_UP": ("blob", "files"),
    "TOOL_RESULT": ("whole", "files"),
    "CALL_ENDED": ("whole", "files"),
    "MESSAGE_DELTA": ("whole", "files"),
}
"""Event type -> the payload's field that names a blob, and the blob's folder."""
Blob = tuple[str, str]
"""Folder and digest."""
_MARKS = (b'"context":"', b'"blob":"', b'"whole":"')
_PARENT = re.compile(rb'\{"parent":"([0-9a-f]{64})"')
_STEP = 1 << 20


def named_blobs(lines: Iterable[bytes | None]) -> set[Blob]:
    """The blobs that rows name."""
    found = set()
    for line in lines:
        if line is None or not any(mark in line for mark in _MARKS):
            continue
        with contextlib.suppress(InvalidEvent):
            row = decode_row(line)
            field, folder = NAMED_BY.get(row.type, ("", ""))
            digest = row.payload.get(field)
            if isinstance(digest, str) and digest:
                found.add((folder, digest))
    return found


class BlobCheck:
    """One pass over `context/` and `files/`. Raises OSError."""

    def __init__(self, paths: SessionPaths, committed: Committed, wanted: set[Blob]) -> None:
        self.paths = paths
        self.problems: list[Problem] = []
        self.present: set[Blob] = set()
        self._committed, self._wanted = committed, wanted
        self._lost = read_lost(paths)

    def run(self, progress: object = None) -> None:
        report = progress if callable(progress) else lambda size: None
        for folder, digest in blobs.everything(self.paths):
            path = blobs.blob_path(self.paths, folder, digest)
            if path.is_symlink() or not path.is_file():
                continue
            actual, size, beginning = _sum(path)
            report(size)
            if actual == digest:
                self.present.add((folder, digest))
                parent = _PARENT.match(beginning) if folder == "context" else None
                if parent is not None:
                    self._wanted.add((folder, parent[1].decode()))
            else:
                self._damaged(folder, digest, path)
        self._missing()
        self._log()

    def _damaged(self, folder: str, digest: str, path: Path) -> None:
        self._wanted.discard((folder, digest))
        self._add(folder, digest, path, "blob_damaged", "its bytes are not those of its name")

    def _missing(self) -> None:
        for folder, digest in sorted(self._wanted - self.present):
            path = blobs.blob_path(self.paths, folder, digest)
            if (folder, digest) in self._lost:
                self.problems.append(
                    Problem(
                        kind="blob_lost",
                        path=str(path),
                        detail="lost: an earlier repair could not find it again",
                        repair="nothing can be done",
                        lost=True,
                        note=True,
                    )
                )
            elif not path.is_file():
                self._add(folder, digest, path, "blob_missing", "missing, and the journal names it")

    def _add(self, folder: str, digest: str, path: Path, kind: str, detail: str) -> None:
        kept = self._committed.blob(folder, digest) is not None
        repair = "restored from the commits" if kept else "nobody has it any more: noted in `lost`"
        self.problems.append(
            Problem(kind=kind, path=str(path), detail=detail, repair=repair, lost=not kept)  # type: ignore[arg-type]
        )

    def _log(self) -> None:
        noted, _ = blobs.logged(self.paths, 0)
        unnoted = self.present - set(noted)
        if unnoted:
            self.problems.append(
                Problem(
                    kind="blob_log",
                    path=str(self.paths.blob_log),
                    detail=f"{len(unnoted)} blobs are not in it, so no commit has them",
                    repair="they are added",
                    note=True,
                )
            )


def read_lost(paths: SessionPaths) -> set[Blob]:
    """The blobs that a repair could not find again. Raises OSError."""
    try:
        lines = paths.lost.read_text("ascii", "replace").splitlines()
    except FileNotFoundError:
        return set()
    pairs = (line.partition(" ") for line in lines)
    return {(folder, digest) for folder, _, digest in pairs}


def _sum(path: Path) -> tuple[str, int, bytes]:
    """SHA-256, size and first bytes of a file, read in small steps."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    digest, size, beginning = hashlib.sha256(), 0, b""
    with open(descriptor, "rb") as file:
        while step := file.read(_STEP):
            beginning = beginning or step[:128]
            digest.update(step)
            size += len(step)
    return digest.hexdigest(), size, beginning
