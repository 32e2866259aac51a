"""The files of `.git` that are not objects: HEAD, config, the one branch; and lock files that a dead git
left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import time
from pathlib import Path

from segue.stores.git.layout import BRANCH, write_new

STALE_SECONDS = 60.0
"""A lock file this old was left behind: git holds its locks for moments.

A young one may be a living `git gc`'s.
"""
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[gc]
\tauto = 0
"""
SETTINGS = {"HEAD": f"ref: {BRANCH}\n", "config": _CONFIG}
"""File name -> content."""
_UNFINISHED = re.compile(r"(tmp_obj_|\.new-)[0-9a-f]{16}")
_OID = re.compile(r"[0-9a-f]{40}")
log = logging.getLogger("segue.stores.git")


def prepare(git: Path) -> None:
    """Make what is missing of a bare repository. Raises OSError."""
    for directory in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (git / directory).mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in SETTINGS.items():
        if not (git / name).exists():
            write_new(git / name, text.encode())


def start_again(git: Path) -> None:
    """Away with a damaged one: everything in it is derived. Raises OSError."""
    log.warning("%s is damaged or does not fit the journal: it is made again from the journal", git)
    shutil.rmtree(git, ignore_errors=True)
    prepare(git)


def read_branch(git: Path) -> str | None:
    """The commit that the branch names, None when there is none. Raises OSError."""
    try:
        text = (git / BRANCH).read_text("ascii", "replace").strip()
    except FileNotFoundError:
        return _packed_branch(git)
    return text if _OID.fullmatch(text) else "0" * 40


def write_branch(git: Path, commit: str | None) -> None:
    """Name the commit, or, with None, none. Raises OSError."""
    if commit is None:
        (git / BRANCH).unlink(missing_ok=True)
        return
    (git / BRANCH).parent.mkdir(parents=True, exist_ok=True)
    _replace(git / BRANCH, f"{commit}\n")


def remove_stale_locks(git: Path) -> None:
    """Segue needs no lock file of git's, but people's git does. The caller holds the commit lock.

    Raises OSError.
    """
    for path in [*git.glob("*.lock"), *git.glob("refs/**/*.lock")]:
        with contextlib.suppress(FileNotFoundError):  # a living git's
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
                log.warning("%s was left behind and is removed", path)


def remove_unfinished(git: Path) -> None:
    """Files that a commit of ours was writing when its process died. The caller holds the commit lock. Raises OSError.

    Git's own have shorter names; its `gc` removes them.
    """
    for path in [*git.glob("objects/??/tmp_obj_*"), *git.glob(".new-*"), *git.glob("refs/heads/.new-*")]:
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _packed_branch(git: Path) -> str | None:
    try:
        lines = (git / "packed-refs").read_text("ascii", "replace").splitlines()
    except FileNotFoundError:
        return None
    found = (line.split(" ", 1)[0] for line in lines if line.endswith(f" {BRANCH}"))
    return next(found, None)


def _replace(path: Path, text: str) -> None:
    building = path.parent / f".new-{secrets.token_hex(8)}"
    building.write_text(text, "ascii")
    os.replace(building, path)
