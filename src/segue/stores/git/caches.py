"""Derived bytes beside a session, `cache/<name>`: never synced, never committed; nobody misses them but for time."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path

from segue.stores.git.layout import SessionPaths, write_all
from segue.stores.git.segments import pread_all

log = logging.getLogger("segue.stores.git")
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def read(paths: SessionPaths, name: str) -> bytes:
    """Empty when there is nothing, or nothing that can be read."""
    try:
        descriptor = os.open(paths.cache / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return pread_all(descriptor, os.fstat(descriptor).st_size, 0)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return b""
    except OSError as error:
        log.info("%s cannot be read: %s", paths.cache / name, error)
        return b""


def write(paths: SessionPaths, name: str, data: bytes, after: bytes | None) -> bool:
    """One write at the end of the file, if it begins with `after`; None: a new file in its place.

    What cannot be written is not.
    """
    path = paths.cache / name
    try:
        paths.cache.mkdir(mode=0o700, exist_ok=True)
        if after is None:
            _replace(path, data)
            return True
        return _append(path, data, after)
    except OSError as error:
        log.info("%s cannot be written: %s", path, error)
        return True


def _append(path: Path, data: bytes, after: bytes) -> bool:
    try:
        descriptor = os.open(path, _APPEND, 0o600)
    except OSError:  # it is none of ours
        _replace(path, data)
        return True
    try:
        if os.pread(descriptor, len(after) or 1, 0) != after:
            return False
        write_all(descriptor, data)
        return True
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    building = path.parent / f".new-{secrets.token_hex(8)}"
    descriptor = os.open(building, _NEW, 0o600)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(building, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(building)
        raise
