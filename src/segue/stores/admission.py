"""What every store checks before it writes: one rule, one place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from segue.errors import BlobNotFound, InvalidEvent, LeaseRequired, SessionNotFound, StaleWriter, StorageError
from segue.events.facts import CONTROL_TYPES
from segue.stores.protocol import Draft, Lease

BLOB_FOLDERS = ("context", "files")
_CACHE = re.compile(r"[a-z0-9_]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_drafts(session_id: str, drafts: Sequence[Draft], lease: Lease | None) -> None:
    """What can be said without looking at the session.

    Raises `LeaseRequired`, `StaleWriter`, `InvalidEvent`.
    """
    if lease is not None and lease.session_id != session_id:
        raise StaleWriter(f"the lease is for session {lease.session_id}, not for {session_id}")
    for draft in drafts:
        if lease is None and draft.type not in CONTROL_TYPES:
            raise LeaseRequired(
                f"{draft.type} is a turn row: writing it to {session_id} needs the turn lease"
            )
        payload = draft.payload
        if payload[:1] != b"{" or payload[-1:] != b"}" or b"\n" in payload:
            raise InvalidEvent(f"{draft.type}: the payload is not a JSON object on one line")


def check_seq(session_id: str, last_seq: int, expected_seq: int | None) -> None:
    """Raises `StaleWriter` when the caller knows another last row than there is."""
    if expected_seq is not None and expected_seq != last_seq:
        raise StaleWriter(
            f"{session_id} is at row {last_seq}, not {expected_seq}: read what is new and decide again"
        )


def check_epoch(lease: Lease, epoch: int, token: str) -> None:
    """Raises `StaleWriter` unless the lease is the current acquisition."""
    if (lease.epoch, lease.token) != (epoch, token):
        now = f"epoch {epoch} has it" if token else "it was released"
        raise StaleWriter(f"the turn lease of {lease.session_id}, epoch {lease.epoch}, is not current: {now}")


def check_folder(folder: str) -> str:
    """The blob folder itself. Raises `StorageError` when it is not one of `BLOB_FOLDERS`."""
    if folder not in BLOB_FOLDERS:
        raise StorageError(f"blobs are kept in {' or '.join(BLOB_FOLDERS)}, not in {folder!r}")
    return folder


def check_cache(name: str) -> str:
    """The name itself. Raises `StorageError` when it is not one of lower-case letters, digits and underscores."""
    if not _CACHE.fullmatch(name):
        raise StorageError(
            f"{name!r} is not a name for a cache: use lower-case letters, digits and underscores"
        )
    return name


def check_digest(digest: str) -> str:
    """The digest itself. Raises `BlobNotFound` when it is not 64 hexadecimal digits."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise BlobNotFound(f"{digest!r} is not a SHA-256 in hexadecimal")
    return digest


def no_session(session_id: str) -> SessionNotFound:
    return SessionNotFound(f"there is no session {session_id!r}")
