"""Session ids: what is allowed, and the folder name that belongs to one id and to no other."""

from __future__ import annotations

import re

from segue.errors import InvalidSessionId

_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_FOLDER = re.compile(r"([a-z0-9][a-z0-9_.-]{0,127})(?:\+([0-9a-f]{1,32}))?")


def check_session_id(session_id: str) -> str:
    """The id itself. Raises `InvalidSessionId` for what is not on the allow-list; does no I/O."""
    if not isinstance(session_id, str) or not _ALLOWED.fullmatch(session_id):
        raise _invalid(
            session_id, "use 1 to 128 of the characters A-Z a-z 0-9 _ . - and begin with a letter or digit"
        )
    if ".." in session_id or session_id.endswith("."):
        raise _invalid(session_id, "two dots in a row, or a dot at the end, are not allowed")
    if _DEVICE.fullmatch(session_id):
        raise _invalid(session_id, "it is the name of a device on Windows")
    return session_id


def folder_of(session_id: str) -> str:
    """The folder name of a valid id: itself, as long as it has no capital letter.

    File systems may ignore case, so capitals become small and `+` with a hexadecimal mask of their places
    follows, the first character being bit 0: `MyId` is `myid+5`. `+` is in no id, so no two ids share a
    folder.
    """
    mask = sum(1 << place for place, letter in enumerate(session_id) if letter.isupper())
    return f"{session_id.lower()}+{mask:x}" if mask else session_id


def id_of(folder: str) -> str | None:
    """The id whose folder this is, or None when it is no session's folder."""
    found = _FOLDER.fullmatch(folder)
    if found is None:
        return None
    mask = int(found[2] or "0", 16)
    letters = (letter.upper() if mask >> place & 1 else letter for place, letter in enumerate(found[1]))
    session_id = "".join(letters)
    try:
        return session_id if folder_of(check_session_id(session_id)) == folder else None
    except InvalidSessionId:
        return None


def _invalid(session_id: object, rule: str) -> InvalidSessionId:
    shown = repr(session_id)
    return InvalidSessionId(f"{shown if len(shown) < 200 else shown[:200] + '...'} is no session id: {rule}")
