"""Files that are being made, and those that a dead process left: told apart by a lock, never by age alone.

Whoever makes a file or folder under a passing name holds an flock on it. The kernel frees a dead one's, so what can be
locked has no living maker; but one who has just made it may not have locked it yet, so young ones are left alone too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path

from segue.stores.git.forks import close_lock, open_lock

PREFIXES = (".new-", ".repair-", "tmp_obj_")
GRACE_SECONDS = 60.0
"""Between making something and locking it a process may be stopped for so long."""


def is_passing(name: str) -> bool:
    """Whether this is a name for something unfinished."""
    return name.startswith(PREFIXES)


def hold(descriptor: int) -> None:
    """Say that the open file or folder has a living maker. A file system without locks has no leftovers swept."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_dead(path: Path) -> bool:
    """Whether nobody is making this any more. Raises OSError."""
    try:
        status = path.stat(follow_symlinks=False)
        if time.time() - status.st_mtime < GRACE_SECONDS:
            return False
        descriptor = open_lock(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        close_lock(descriptor)


def sweep(folder: Path) -> None:
    """Remove what is left in this folder, not below it; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if is_passing(name) and is_dead(folder / name):
                remove(folder / name)


def remove(path: Path) -> None:
    """A file or folder, as far as it can be removed."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
