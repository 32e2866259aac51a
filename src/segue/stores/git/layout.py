"""Where a session's files are.

<root>/<folder>/
  meta.json       {"format", "id", "created_at"}
  history/        segments: <seq of the first row, 12 digits>.jsonl, the truth
  acknowledged    how far the last segment is durable and visible
  sealed          length and checksum of each full segment
  lock/turn       flock: the turn lease; content: who has it
  lock/append     flock: held for one append
  lock/commit     flock: held for one commit, shared by who verifies
  lock/next       flock: who takes the commit lock next
  lock/waiting    flock: processes that wait for the turn lease share it
  context/, files/  blobs under their SHA-256: ab/cdef...
  blobs           one line a blob put, in order: what the next commit has to take
  cache/          what views were at the end of settled turns: derived, checked when it is read
  torn/           bytes that a crash left behind the last complete batch, kept for people
  lost            one line a blob that a repair could not find again
  repair/         a repair that is decided and not yet done, see `segue.stores.git.prepared`
  .git            derived history, bare
<root>/.dirty/<folder>    change marks, see `segue.stores.git.marks`
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import stat
import time
from pathlib import Path

from segue.ids import utc_now
from segue.stores.git import leftovers, marks
from segue.stores.git.acknowledged import START, encode
from segue.stores.ids import folder_of, id_of

FORMAT = 1
BRANCH = "refs/heads/main"
"""The one of a session's repository."""
MTIME_GRAIN = 2_000_000_000
"""Nanoseconds within which two changes of a directory may leave the same time on some file system."""
_DIRECTORIES = ("history", "lock", "context", "files")


class SessionPaths:
    """The paths of one session. Making this object does no I/O."""

    def __init__(self, root: Path, session_id: str) -> None:
        self.session_id = session_id
        self.root = root
        self.folder = root / folder_of(session_id)
        self.meta = self.folder / "meta.json"
        self.history = self.folder / "history"
        self.acknowledged = self.folder / "acknowledged"
        self.sealed = self.folder / "sealed"
        self.turn_lock = self.folder / "lock" / "turn"
        self.append_lock = self.folder / "lock" / "append"
        self.commit_lock = self.folder / "lock" / "commit"
        self.next_lock = self.folder / "lock" / "next"
        self.waiting_lock = self.folder / "lock" / "waiting"
        self.blob_log = self.folder / "blobs"
        self.cache = self.folder / "cache"
        self.torn = self.folder / "torn"
        self.lost = self.folder / "lost"
        self.git = self.folder / ".git"
        self.branch = self.git / BRANCH
        self.mark = root / marks.FOLDER / self.folder.name

    def segment(self, first_seq: int) -> Path:
        return self.history / f"{first_seq:012d}.jsonl"

    def segments(self) -> list[int]:
        """Seqs of the first rows of all segments, ascending."""
        names = (name for name in os.listdir(self.history) if name.endswith(".jsonl"))
        return sorted(int(name[:-6]) for name in names if name[:-6].isdigit())

    def exists(self) -> bool:
        """Whether this is a session's folder, and a real one: a planted symbolic link is not followed."""
        return _is_directory(self.folder) and _is_directory(self.history)


def create_session(paths: SessionPaths) -> bool:
    """Make the folder whole or not at all. False when it exists already. Raises OSError."""
    if paths.exists():
        return False
    if paths.folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(paths.folder))
    _make_root(paths.root)
    building = paths.root / f".new-{secrets.token_hex(8)}"
    building.mkdir(mode=0o700)
    descriptor = os.open(building, os.O_RDONLY | os.O_DIRECTORY)
    try:
        leftovers.hold(descriptor)
        _build(building, paths.session_id)
        with marks.locked(paths.mark.parent):
            marks.make(paths.mark)
            os.rename(building, paths.folder)
    except OSError:
        shutil.rmtree(building, ignore_errors=True)
        if paths.exists():  # another process was faster
            return False
        raise
    finally:
        os.close(descriptor)
    sync_directory(paths.root)
    return True


def list_sessions(root: Path) -> list[str]:
    """Ids of all sessions under the root, sorted. Raises OSError, but not when the root is missing.

    What creating and deleting left there when a process died is removed on the way.
    """
    names = _folders(root)
    if any(name.startswith((".new-", ".deleted-")) for name in names):
        sweep_hidden(root)
    ids = ((session_id, name) for name in names if (session_id := id_of(name)) is not None)
    return sorted(session_id for session_id, name in ids if _is_directory(f"{root}/{name}/history"))


def unknown_folders(root: Path) -> list[Path]:
    """Folders under the root that hold a journal under a name that is no session's: renamed by hand. Raises OSError."""
    unknown = (root / name for name in _folders(root) if not name.startswith(".") and id_of(name) is None)
    return sorted(folder for folder in unknown if _is_directory(folder / "history"))


def census(root: Path) -> str:
    """The root's identity and time of change; empty when another change may still leave the same time.

    Raises OSError, but not when the root is missing.
    """
    try:
        status = os.stat(root)
    except FileNotFoundError:
        return ""
    settled = time.time_ns() - status.st_mtime_ns > MTIME_GRAIN
    return f"{status.st_dev}.{status.st_ino}.{status.st_mtime_ns}" if settled else ""


def hide_session(paths: SessionPaths) -> None:
    """Out of sight in one step, durably. Raises OSError."""
    marks.make(paths.mark)
    os.rename(paths.folder, paths.root / f".deleted-{secrets.token_hex(8)}")
    sync_directory(paths.root)


def sweep_hidden(root: Path) -> None:
    """What is hidden was deleted, or was never finished: finish what a crash interrupted."""
    for name in os.listdir(root):
        if name.startswith(".deleted-"):
            shutil.rmtree(root / name, ignore_errors=True)
    leftovers.sweep(root)


def write_new(path: Path, data: bytes) -> None:
    """A file that is there whole and durable, or not at all. Raises OSError."""
    building = path.parent / f".new-{secrets.token_hex(8)}"
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            leftovers.hold(descriptor)
            write_all(descriptor, data)
            os.fsync(descriptor)
            os.rename(building, path)
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(building)
        raise
    sync_directory(path.parent)


def write_all(descriptor: int, data: bytes) -> None:
    """`os.write` until everything is written: one call, but for signals and sizes over 2 GiB.

    Raises OSError.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_root(root: Path) -> None:
    """Make the folder of all sessions; its entry is synced even when it is there: who made it may be on the way."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in missing or [root]:
        with contextlib.suppress(PermissionError):  # a folder that we may not read
            sync_directory(folder.parent)


def _build(folder: Path, session_id: str) -> None:
    for name in _DIRECTORIES:
        (folder / name).mkdir(mode=0o700)
    write_new(folder / "acknowledged", encode(START))
    write_new(folder / "meta.json", meta_bytes(session_id))


def meta_bytes(session_id: str, created_at: str = "") -> bytes:
    """The content of meta.json."""
    meta = {"format": FORMAT, "id": session_id, "created_at": created_at or utc_now()}
    return json.dumps(meta).encode() + b"\n"


def _folders(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _is_directory(path: Path | str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
