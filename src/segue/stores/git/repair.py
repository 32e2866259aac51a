"""`repair`: what `verify` finds is put right, nothing is thrown away, and a kill at any point leaves the old or the
repaired session.

First everything that will change is copied to `<root>/.backups/`, which Segue never deletes. Then the repaired files
are written beside the session's, decided on in one step, and put in place (see `segue.stores.git.prepared`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import zlib
from pathlib import Path

import msgspec

from segue.errors import StorageError
from segue.events.codec import encode_json, row_bytes
from segue.events.facts import RowLost
from segue.ids import new_id, utc_now
from segue.stores.git import leftovers, marks, prepared, repository
from segue.stores.git.acknowledged import SIZE, START, Position, encode
from segue.stores.git.blobcheck import Blob, read_lost
from segue.stores.git.identity import created_at
from segue.stores.git.layout import SessionPaths, meta_bytes, sync_directory, write_all
from segue.stores.git.locks import append_lock, commit_lock
from segue.stores.git.problems import Problem
from segue.stores.git.survey import Piece, Progress
from segue.stores.git.verify import Inspection
from segue.stores.protocol import Draft

BACKUPS = ".backups"
_LEFT = {"stray", "torn_append", "not_published", "blob_lost"}
"""Kinds of problems that need no repair: the next open does it, or nobody can."""
_REASON = "this row was damaged or missing, and no copy of it was left when the session was repaired"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did."""

    problems: list[Problem]
    """What was found, notes included; with `repair` saying what was done."""
    backup: str
    """The folder with everything that was changed, as it was; empty when nothing was."""


def repair(paths: SessionPaths, progress: Progress = lambda size: None) -> Report:
    """The caller holds the turn lease. Raises `StorageError` for what cannot be repaired, OSError."""
    with commit_lock(paths), append_lock(paths):
        _finish_earlier(paths)
        for unfinished in paths.folder.glob(".repair-*"):  # of one that died: we have the lock
            leftovers.remove(unfinished)
        building = paths.folder / f".repair-{secrets.token_hex(8)}"
        try:
            return _Repair(paths, building).run(progress)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _finish_earlier(paths: SessionPaths) -> None:
    if not (paths.folder / prepared.NAME).exists():
        return
    descriptor = os.open(paths.acknowledged, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        prepared.finish(paths, descriptor)
    finally:
        os.close(descriptor)


class _Repair:
    def __init__(self, paths: SessionPaths, building: Path) -> None:
        self.paths, self.building = paths, building
        self.new = building / "new"
        self._ends: list[Position] = []
        """Where each segment ends."""
        self._changed: set[str] = set()
        """Paths, relative to the session's folder, of what there is now and will not be the same."""
        self._remove: list[str] = []

    def run(self, progress: Progress) -> Report:
        inspection = Inspection(self.paths, self.building.name)
        inspection.run(self._visit, progress)
        problems = inspection.problems
        if inspection.foreign:
            raise StorageError(f"{problems[0].describe()}; {problems[0].repair}")
        if all(problem.kind in _LEFT for problem in problems):
            return Report(problems=problems, backup="")
        self._blobs(inspection)
        self._small_files(inspection)
        self._strays(problems, inspection.rebuild_git)
        backup = self._back_up()
        base = self.paths.acknowledged.read_bytes()[: 2 * SIZE] if self.paths.acknowledged.exists() else b""
        self._write("base", base)
        self._write("position", encode(self._ends[-1] if self._ends else START))
        self._write(
            "remove", "".join(f"{name}\n" for name in self._remove).encode("utf-8", "surrogateescape")
        )
        self.new.mkdir(mode=0o700, parents=True, exist_ok=True)
        marks.make(self.paths.mark)
        prepared.decide(self.paths, self.building)
        _finish_earlier(self.paths)
        return Report(problems=problems, backup=str(backup))

    # --- what the session will be ---------------------------------------------------------------------------------

    def _visit(self, piece: Piece) -> None:
        name = f"history/{piece.first:012d}.jsonl"
        lines = [
            self._lost_row(seq) if line is None else line for seq, line in enumerate(piece.lines, piece.first)
        ]
        body = b"".join(b"%s\n" % line for line in lines)
        self._ends.append(Position(piece.first, len(body), piece.last, zlib.crc32(body)))
        if piece.changed:
            self._write(f"new/{name}", body)
            self._changed.add(name)
        else:
            _sync(self.paths.segment(piece.first))  # it may hold rows that were never acknowledged

    def _lost_row(self, seq: int) -> bytes:
        payload = encode_json({"reason": _REASON})
        draft = Draft(new_id("evt"), "segue repair", RowLost.TYPE, payload, utc_now())
        return row_bytes(self.paths.session_id, seq, draft)

    def _blobs(self, inspection: Inspection) -> None:
        lost: set[Blob] = set()
        for problem in inspection.problems:
            if problem.kind not in ("blob_damaged", "blob_missing"):
                continue
            path = Path(problem.path)
            blob = (path.parent.parent.name, path.parent.name + path.name)
            data = inspection.committed.blob(*blob) if inspection.committed is not None else None
            name = f"{blob[0]}/{path.parent.name}/{path.name}"
            self._changed.add(name)
            if data is None:
                lost.add(blob)
                self._remove.append(name)
            else:
                self._write(f"new/{name}", data)
                inspection.present.add(blob)
        if lost:
            self._note_lost(lost)
        if any(problem.kind == "blob_log" for problem in inspection.problems):
            self._replace(
                "blobs", "".join(f"{folder} {digest}\n" for folder, digest in sorted(inspection.present))
            )
            inspection.rebuild_git = True  # the offset in its last commit is that of the old log

    def _note_lost(self, lost: set[Blob]) -> None:
        noted = sorted(lost | read_lost(self.paths))
        self._replace("lost", "".join(f"{folder} {digest}\n" for folder, digest in noted))

    def _small_files(self, inspection: Inspection) -> None:
        kinds = {problem.kind for problem in inspection.problems}
        sealed = "".join(f"{end.segment} {end.length} {end.crc:08x} .\n" for end in self._ends[:-1])
        self._replace("sealed", sealed)
        self._changed.add("acknowledged")
        if kinds & {"meta_missing", "meta_damaged", "meta_foreign"}:
            self._replace("meta.json", meta_bytes(self.paths.session_id, created_at(self.paths)).decode())
        for problem in inspection.problems:
            if problem.kind == "git_settings":
                name = Path(problem.path).name
                self._replace(f".git/{name}", repository.SETTINGS[name])

    def _strays(self, problems: list[Problem], rebuild_git: bool) -> None:
        ours = {f"history/{end.segment:012d}.jsonl" for end in self._ends}
        for problem in problems:
            name = str(Path(problem.path).relative_to(self.paths.folder))
            if problem.kind == "leftover":
                leftovers.remove(Path(problem.path))
            elif problem.kind in ("segment_stray", "link") and name not in ours:
                self._changed.add(name)
                self._remove.append(name)
            elif problem.kind == "permissions":
                _allow(Path(problem.path))
        if self.paths.cache.exists():
            self._remove.append("cache")
        if rebuild_git and self.paths.git.exists():
            self._changed.add(".git")
            self._remove.append(".git")

    # --- writing --------------------------------------------------------------------------------------------------

    def _replace(self, name: str, text: str) -> None:
        self._changed.add(name)
        self._write(f"new/{name}", text.encode())

    def _write(self, name: str, data: bytes) -> None:
        path = self.building / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)

    def _back_up(self) -> Path:
        """A copy of everything that will change, durable, under its own name only when it is whole."""
        backups = self.paths.root / BACKUPS
        backups.mkdir(mode=0o700, exist_ok=True)
        leftovers.sweep(backups)
        copying = backups / f".new-{secrets.token_hex(8)}"
        copying.mkdir(mode=0o700)
        descriptor = os.open(copying, os.O_RDONLY | os.O_DIRECTORY)
        try:
            leftovers.hold(descriptor)
            self._copy_to(copying)
            moment = utc_now()[:-1].replace(":", "").replace("-", "")
            backup = backups / f"{self.paths.folder.name}-{moment}"
            os.rename(copying, backup)
        except OSError:
            shutil.rmtree(copying, ignore_errors=True)
            raise
        finally:
            os.close(descriptor)
        sync_directory(backups)
        sync_directory(self.paths.root)
        return backup

    def _copy_to(self, copying: Path) -> None:
        for name in sorted(self._changed):
            source, target = self.paths.folder / name, copying / name
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            elif source.exists() or source.is_symlink():
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        for parent, _, names in os.walk(copying):
            for name in names:
                if not (Path(parent) / name).is_symlink():
                    _sync(Path(parent) / name)
            sync_directory(Path(parent))


def _allow(path: Path) -> None:
    try:
        path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be made readable: {error.strerror}; its owner has to do that"
        ) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
