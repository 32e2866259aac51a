"""A repair that is decided: `repair/` in the session's folder holds what goes where. Whoever opens the session next
finishes it.

    repair/base      what `acknowledged` held when the session was looked at
    repair/position  what it shall hold
    repair/remove    paths to take away, one a line
    repair/new/      files to put in place, by their paths

It is made under another name and gets this one in one step. From then on every step can be done again: first
`acknowledged` is emptied, so that nobody believes the old position, then files are moved, then the new position is
written, and last the folder goes. Somebody who had the session open may have appended before `acknowledged` was
emptied: then it does not hold `base`, and the repair is given up; it starts from what is there when it is run again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from segue.stores.git import acknowledged
from segue.stores.git.layout import SessionPaths, sync_directory

NAME = "repair"


def decide(paths: SessionPaths, building: Path) -> None:
    """The point of no return; everything in it is durable. Raises OSError."""
    for folder, _, names in os.walk(building):
        for name in names:
            _sync(Path(folder) / name)
        sync_directory(Path(folder))
    os.rename(building, paths.folder / NAME)
    sync_directory(paths.folder)


def finish(paths: SessionPaths, descriptor: int) -> str:
    """Do what is decided, if anything; `descriptor` is that of `acknowledged`. Gives what was done, for people.

    The caller holds the append lock. Raises OSError.
    """
    folder = paths.folder / NAME
    if not folder.is_dir() or folder.is_symlink():
        return ""
    report = f"{paths.folder}: a repair was finished"
    base, position = _read(folder / "base"), _read(folder / "position")
    now = os.pread(descriptor, 2 * acknowledged.SIZE, 0)
    if base is None or position is None:
        report = f"{folder} is no repair of ours, and is removed"
    elif now in (base, b""):
        acknowledged.retract(descriptor)
        os.fsync(descriptor)
        _move(paths, folder)
        os.pwrite(descriptor, position, 0)
        os.fsync(descriptor)
    elif now != position:
        report = f"{paths.folder}: an unfinished repair was given up: the session was written meanwhile"
    done = paths.folder / f".repair-{secrets.token_hex(8)}"
    os.rename(folder, done)
    sync_directory(paths.folder)
    shutil.rmtree(done, ignore_errors=True)
    return report


def _move(paths: SessionPaths, folder: Path) -> None:
    changed = {paths.folder}
    for name in (folder / "remove").read_text("utf-8", "surrogateescape").splitlines():
        path = paths.folder / name
        if not path.parent.resolve().is_relative_to(paths.folder.resolve()):
            continue  # nothing that is planted here reaches outside
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        changed.add(path.parent)
    for parent, _, names in os.walk(folder / "new"):
        target = paths.folder / Path(parent).relative_to(folder / "new")
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            os.replace(Path(parent) / name, target / name)
        changed.add(target)
    for directory in changed:
        if directory.is_dir():
            sync_directory(directory)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
