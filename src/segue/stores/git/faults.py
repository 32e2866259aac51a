"""Operating system errors become `StorageError` that names path and cause."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from segue.errors import StorageError

_ADVICE = {
    errno.ENOSPC: "free some space, then go on: nothing that was acknowledged is lost",
    errno.EDQUOT: "the quota is used up; free some space, then go on",
    errno.EROFS: "the file system is read-only; choose another place with SEGUE_HOME",
    errno.EACCES: "permission denied; change the owner or the mode, or choose another place with SEGUE_HOME",
    errno.EPERM: "permission denied; change the owner or the mode, or choose another place with SEGUE_HOME",
    errno.ENOTDIR: "a file is where a folder should be; choose another place with SEGUE_HOME",
    errno.EEXIST: "something that is no folder is in the way; remove it, or choose another place with SEGUE_HOME",
    errno.ELOOP: "a symbolic link is in the way, and Segue follows none inside its folders",
    errno.ENAMETOOLONG: "the path is too long; choose a shorter one with SEGUE_HOME",
    errno.EIO: "the disk or its connection is broken: nothing more can be relied on there",
    errno.ENOLCK: "this file system cannot lock files, which Segue needs; choose another place with SEGUE_HOME",
    errno.EOPNOTSUPP: "this file system lacks what Segue needs (locks, or syncing); choose another with SEGUE_HOME",
    errno.ENOSYS: "this file system lacks what Segue needs (locks, or syncing); choose another with SEGUE_HOME",
    errno.EFBIG: "the file would be larger than the limit for this process allows (ulimit -f)",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
}


class naming:  # a class, because every append passes through it: a generator costs thrice as much
    """Turn an `OSError` or `MemoryError` inside into a `StorageError` about `action` on `path`."""

    __slots__ = ("_action", "_path")

    def __init__(self, path: Path, action: str) -> None:
        self._path, self._action = path, action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(self._path, self._action, error) from error
        if isinstance(error, MemoryError):
            message = f"cannot {self._action} {self._path}: there is not enough memory for it"
            raise StorageError(message) from error


def storage_error(path: Path, action: str, error: OSError) -> StorageError:
    code = errno.errorcode.get(error.errno or 0, "")
    advice = _ADVICE.get(error.errno or 0, "")
    cause = f"{os.strerror(error.errno)} ({code})" if error.errno else str(error)
    return StorageError(f"cannot {action} {path}: {cause}{': ' + advice if advice else ''}")
