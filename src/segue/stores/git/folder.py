"""What else is in a session's folder: leftovers, strays, links, modes, and the settings of `.git`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from segue.stores.git import leftovers, prepared
from segue.stores.git.identity import first_session_id, misplaced, read_meta
from segue.stores.git.layout import BRANCH, FORMAT, SessionPaths
from segue.stores.git.problems import Problem

KNOWN = {
    *("meta.json", "history", "acknowledged", "sealed", "lock", "context", "files", "blobs", "torn", "lost"),
    *("cache", ".git", prepared.NAME),
}
_BARE = re.compile(r"^\s*bare\s*=\s*true\s*$", re.MULTILINE)


def identity_problems(paths: SessionPaths) -> list[Problem]:
    """meta.json, and whose folder this is. Raises OSError."""
    meta, where = read_meta(paths), str(paths.meta)
    anew = "written again from the folder's name and the first row"
    if meta is None:
        kind, detail = (
            ("meta_damaged", "not a session's meta.json")
            if paths.meta.exists()
            else ("meta_missing", "missing")
        )
        return [Problem(kind=kind, path=where, detail=detail, repair=anew, note=kind == "meta_missing")]  # type: ignore[arg-type]
    if meta["format"] > FORMAT:
        detail = f"format {meta['format']}: written by a newer Segue"
        return [Problem(kind="format_newer", path=where, detail=detail, repair="not repaired: upgrade Segue")]
    if meta["id"] == paths.session_id:
        return []
    if first_session_id(paths) == meta["id"]:
        detail, advice = misplaced(paths, meta["id"]).split(": ", 1)
        return [
            Problem(
                kind="misplaced",
                path=str(paths.folder),
                detail=detail.removeprefix(f"{paths.folder} "),
                repair=f"not repaired: {advice}",
            )
        ]
    return [
        Problem(kind="meta_foreign", path=where, detail=f"it is that of session {meta['id']}", repair=anew)
    ]


def git_settings(git: Path) -> list[Problem]:
    """HEAD and config as Segue needs them. Raises OSError."""
    found = []
    if git.exists():
        if _text(git / "HEAD").strip() != f"ref: {BRANCH}":
            found.append((git / "HEAD", f"it does not name {BRANCH}"))
        if not _BARE.search(_text(git / "config")):
            found.append(
                (git / "config", "the repository is not bare: a stray `git reset` could eat the journal")
            )
    return [
        Problem(kind="git_settings", path=str(path), detail=detail, repair="written again")
        for path, detail in found
    ]


def entries(paths: SessionPaths, ours: str = "") -> Iterator[Problem]:
    """Everything in the folder that does not belong there or cannot be used, but `ours`. Raises OSError."""
    if stat.S_IMODE(os.stat(paths.folder).st_mode) & 0o077:
        yield Problem(
            kind="permissions",
            path=str(paths.folder),
            detail="other users may look into it",
            repair="the mode becomes 0700",
            note=True,
        )
    if (paths.folder / prepared.NAME).is_dir():
        yield Problem(
            kind="repair_interrupted",
            path=str(paths.folder / prepared.NAME),
            note=True,
            detail="a repair was interrupted",
            repair="the next open finishes it",
        )
    read_only = os.statvfs(paths.folder).f_flag & os.ST_RDONLY
    wanted = os.R_OK if read_only else os.R_OK | os.W_OK
    for path in _walk(paths, ours):
        if path.is_symlink():
            yield Problem(
                kind="link",
                path=str(path),
                detail="a symbolic link: Segue makes and follows none",
                repair="taken out of the way",
            )
        elif leftovers.is_passing(path.name):
            if not leftovers.is_dead(path):
                continue
            yield Problem(
                kind="leftover",
                path=str(path),
                detail="left by a process that died",
                repair="removed",
                note=True,
            )
        elif path.parent == paths.folder and path.name not in KNOWN:
            yield Problem(
                kind="stray", path=str(path), detail="not a file of Segue's", repair="left alone", note=True
            )
        elif not os.access(path, wanted) and ".git" not in path.parts:
            yield Problem(
                kind="permissions",
                path=str(path),
                detail="this user may not read and write it",
                repair="the mode is changed, where this user may do that",
            )


def _walk(paths: SessionPaths, ours: str) -> Iterator[Path]:
    for parent, folders, files in os.walk(paths.folder):
        if Path(parent) == paths.folder:
            folders[:] = [name for name in folders if name not in (prepared.NAME, ours)]
        yield from (Path(parent) / name for name in sorted([*folders, *files]))
        folders[:] = [name for name in folders if not leftovers.is_passing(name)]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
