"""Content-addressed files: `context/` and `files/`, `ab/cdef...` under their SHA-256, whole or not there."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from segue.errors import BlobNotFound, StorageError
from segue.stores.git.layout import SessionPaths, sync_directory, write_all, write_new

_LOG_LINE = re.compile(rb"(context|files) ([0-9a-f]{64})")


def put(paths: SessionPaths, folder: str, data: bytes) -> str:
    """Durable when it returns. Raises OSError."""
    digest = hashlib.sha256(data).hexdigest()
    path = blob_path(paths, folder, digest)
    if _has(path, len(data)):
        return digest
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        sync_directory(path.parent.parent)
    _note(
        paths, folder, digest
    )  # before: a crash in between leaves a note too many, not a blob that no commit takes
    write_new(path, data)
    return digest


def get(paths: SessionPaths, folder: str, digest: str) -> bytes:
    """Raises BlobNotFound, OSError; `StorageError` when the bytes are not those of the digest."""
    with _opened(paths, folder, digest) as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(blob_path(paths, folder, digest))
    return data


def size(paths: SessionPaths, folder: str, digest: str) -> int:
    """Bytes. Raises BlobNotFound, OSError."""
    with _opened(paths, folder, digest) as file:
        return os.fstat(file.fileno()).st_size


def check(paths: SessionPaths, folder: str, digest: str) -> None:
    """Like `get`, in little memory, without the bytes."""
    with _opened(paths, folder, digest) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            raise _damaged(blob_path(paths, folder, digest))


def _opened(paths: SessionPaths, folder: str, digest: str) -> BufferedReader:
    try:
        descriptor = os.open(blob_path(paths, folder, digest), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise BlobNotFound(f"{paths.session_id} has no blob {digest} in {folder}") from None
    return open(descriptor, "rb")


def _damaged(path: Path) -> StorageError:
    advice = "`segue sessions repair` restores it, if a commit has it"
    return StorageError(f"{path} is damaged: its bytes are not those of its name; {advice}")


def blob_path(paths: SessionPaths, folder: str, digest: str) -> Path:
    return paths.folder / folder / digest[:2] / digest[2:]


def logged(paths: SessionPaths, offset: int) -> tuple[list[tuple[str, str]], int]:
    """Folder and digest of the blobs noted after byte `offset`, and the offset to go on from.

    Raises OSError.
    """
    try:
        with open(paths.blob_log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(min(offset, end))
            data = file.read()
    except FileNotFoundError:
        return [], 0
    offset = min(offset, end)
    end = data.rfind(b"\n") + 1
    found = (_LOG_LINE.fullmatch(line) for line in data[:end].split(b"\n"))
    return [(match[1].decode(), match[2].decode()) for match in found if match], offset + end


def mend_log(paths: SessionPaths, offset: int) -> None:
    """After a power loss: the log is as long again as commits know it, and its next line begins anew.

    Raises OSError.
    """
    try:
        data = paths.blob_log.read_bytes()
    except FileNotFoundError:
        data = b""
    missing = max(0, offset - len(data))
    if missing or (data and not data.endswith(b"\n")):
        _append(paths, b"\n" * max(1, missing))


def everything(paths: SessionPaths) -> Iterator[tuple[str, str]]:
    """Folder and digest of all blobs, in order of their names. Raises OSError."""
    for folder in ("context", "files"):
        for path in sorted((paths.folder / folder).glob("[0-9a-f][0-9a-f]/*")):
            if len(path.name) == 62:
                yield folder, path.parent.name + path.name


def _has(path: Path, size: int) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_size == size
    except FileNotFoundError:
        return False


def _note(paths: SessionPaths, folder: str, digest: str) -> None:
    _append(paths, f"{folder} {digest}\n".encode())


def _append(paths: SessionPaths, data: bytes) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(paths.blob_log, flags, 0o600)
    try:
        end = os.fstat(descriptor).st_size
        torn = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"  # a line that a crash cut short
        write_all(descriptor, b"\n" * torn + data)
    finally:
        os.close(descriptor)
