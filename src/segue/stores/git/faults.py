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
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
}


class naming:  # a class, because every append passes through it: a generator costs thrice as much
    """Turn an `OSError` inside into a `StorageError` about `action` on `path`."""

    __slots__ = ("_action", "_path")

    def __init__(self, path: Path, action: str) -> None:
        self._path, self._action = path, action

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(self._path, self._action, error) from error


def storage_error(path: Path, action: str, error: OSError) -> StorageError:
    code = errno.errorcode.get(error.errno or 0, "")
    advice = _ADVICE.get(error.errno or 0, "")
    cause = f"{os.strerror(error.errno)} ({code})" if error.errno else str(error)
    return StorageError(f"cannot {action} {path}: {cause}{': ' + advice if advice else ''}")
