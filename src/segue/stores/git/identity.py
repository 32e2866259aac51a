"""Whose folder this is: `meta.json`, the folder's name and the first row must say the same."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from segue.errors import InvalidEvent, MisplacedSession, NewerFormat
from segue.events.codec import decode_row
from segue.stores.git.layout import FORMAT, SessionPaths, meta_bytes, write_new
from segue.stores.ids import folder_of, id_of


def check_identity(paths: SessionPaths) -> None:
    """Before a session is used. Raises `NewerFormat`, `MisplacedSession`, OSError."""
    meta = read_meta(paths)
    if meta is None or meta == {"format": FORMAT, "id": paths.session_id, "created_at": meta["created_at"]}:
        return
    if meta["format"] > FORMAT:
        raise NewerFormat(
            f"{paths.folder} is in format {meta['format']}, and this version of Segue knows formats up to {FORMAT}:"
            " it was written by a newer Segue, upgrade to that one"
        )
    other = meta["id"]
    if other != paths.session_id and first_session_id(paths) == other:
        raise MisplacedSession(misplaced(paths, other))


def misplaced(paths: SessionPaths, session_id: str) -> str:
    """What to say of a folder that holds another session, and what to do."""
    home = paths.root / folder_of(session_id)
    if home.exists():
        advice = (
            f"it is a copy of {home.name}, which is there too: move one of them away; a session is never two"
        )
    else:
        advice = f"rename the folder to {home.name}, and it is whole again"
    return f"{paths.folder} holds session {session_id}, not {paths.session_id}: {advice}"


def heal_meta(paths: SessionPaths) -> str:
    """Write meta.json again when it is missing, damaged or another's; gives what was wrong. Raises OSError.

    The folder's name and the rows say all that matters.
    """
    meta = read_meta(paths)
    if meta is not None and meta["id"] == paths.session_id:
        return ""
    what = "missing" if not paths.meta.exists() else "damaged" if meta is None else f"that of {meta['id']}"
    write_new(paths.meta, meta_bytes(paths.session_id, created_at(paths)))
    return f"{paths.meta} was {what} and is written again"


def read_meta(paths: SessionPaths) -> dict[str, Any] | None:
    """format, id and created_at; None when the file is missing or they are not what they should be. Raises OSError."""
    try:
        descriptor = os.open(paths.meta, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        data = file.read(1 << 16)
    try:
        meta = json.loads(data)
        found = {"format": meta["format"], "id": meta["id"], "created_at": meta["created_at"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(found["format"]) is not int or found["format"] < 1 or type(found["created_at"]) is not str:
        return None
    return found if type(found["id"]) is str and id_of(folder_of(found["id"])) == found["id"] else None


def first_session_id(paths: SessionPaths) -> str:
    """What the first row says, empty when there is none. Raises OSError."""
    row = _first_row(paths)
    return row.session_id if row is not None else ""


def created_at(paths: SessionPaths) -> str:
    """When the first row was written; empty when that cannot be read."""
    with contextlib.suppress(OSError):
        row = _first_row(paths)
        return row.created_at if row is not None else ""
    return ""


def _first_row(paths: SessionPaths) -> Any:
    segments = paths.segments()
    if not segments:
        return None
    descriptor = os.open(paths.segment(segments[0]), os.O_RDONLY | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        line = file.readline(1 << 24)
    try:
        return decode_row(line.removesuffix(b"\n"))
    except InvalidEvent:
        return None
