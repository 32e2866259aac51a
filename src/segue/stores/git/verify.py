"""`verify`: everything in one session's folder against everything else, without changing any of it."""

from __future__ import annotations

import os
from collections.abc import Callable

from segue.stores.git import folder
from segue.stores.git.acknowledged import Position
from segue.stores.git.blobcheck import Blob, BlobCheck, named_blobs
from segue.stores.git.committed import Committed
from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import nobody_appends, nobody_commits
from segue.stores.git.noted import read_position
from segue.stores.git.problems import Problem
from segue.stores.git.survey import Piece, Progress, Survey

_BEHIND = {"torn_append", "not_published", "checksum_missing", "segment_stray"}
"""What may be found beside a writer at work, too: it is put down to that, and found the next time if it is there."""


class Inspection:
    """What was found. Everything is read once, one segment at a time."""

    def __init__(self, paths: SessionPaths, ours: str = "") -> None:
        """`ours` is the name of a folder that the caller builds in the session's, and that is none of it."""
        self.paths, self._ours = paths, ours
        self.problems: list[Problem] = folder.identity_problems(paths)
        self.last_seq = 0
        self.position: Position | None = None
        self.committed: Committed | None = None
        self.present: set[Blob] = set()
        """Blobs that are whole."""
        self.rebuild_git = False
        """Whether the commits have to be made again."""

    @property
    def foreign(self) -> bool:
        """Whether this is nothing to look into, or to change: another session's folder, or a newer format's."""
        return any(problem.kind in ("misplaced", "format_newer") for problem in self.problems)

    def run(
        self, visit: Callable[[Piece], None] = lambda piece: None, progress: Progress = lambda size: None
    ) -> None:
        """`visit` is given every piece of the journal as it should be. Raises OSError."""
        if self.foreign:
            return
        committed = self.committed = Committed(self.paths)
        survey = Survey(self.paths, committed, progress)
        self.position = survey.position
        wanted: set[Blob] = set()
        for piece in survey.pieces():
            wanted |= named_blobs(piece.lines)
            visit(piece)
            self.last_seq = piece.last
        blobs = BlobCheck(self.paths, committed, wanted)
        blobs.run(progress)
        self.present = blobs.present
        self.problems += [*survey.problems, *blobs.problems]
        self._check_git(committed, survey.history_differs)
        self.problems += folder.entries(self.paths, self._ours)

    def _check_git(self, committed: Committed, differs: bool) -> None:
        self.problems += folder.git_settings(self.paths.git)
        committed.check_everything()
        head = committed.head.seq
        if not committed.damaged and not differs and head != committed.seq:
            committed.damaged.append(
                f"the last commit says that it has rows up to {head}, and has {committed.seq}"
            )
        for detail in committed.damaged:
            self.problems.append(
                Problem(
                    kind="git_damaged",
                    path=str(self.paths.git),
                    detail=detail,
                    repair="the commits are made again from the journal",
                )
            )
        self.rebuild_git = differs or bool(committed.damaged)


def verify(paths: SessionPaths, progress: Progress = lambda size: None) -> list[Problem]:
    """What is wrong, and what a crash left that the next open puts right (`note`). Raises OSError."""
    inspection = Inspection(paths)
    with nobody_commits(paths):
        inspection.run(progress=progress)
    behind = [problem for problem in inspection.problems if problem.kind in _BEHIND]
    if behind and _was_written(inspection):
        return [problem for problem in inspection.problems if problem not in behind]
    return inspection.problems


def _was_written(inspection: Inspection) -> bool:
    """Whether somebody appended meanwhile: what was behind the position was on its way."""
    with nobody_appends(inspection.paths):
        return inspection.position is not None and read_position(inspection.paths)[0] != inspection.position


def size_of(paths: SessionPaths) -> int:
    """Bytes that `verify` will report as progress, about. Raises OSError."""
    folders = (paths.history, paths.folder / "context", paths.folder / "files")
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for folder in folders
        for parent, _, _ in os.walk(folder)
        for entry in os.scandir(parent)
        if entry.is_file(follow_symlinks=False)
    )
