"""Which session is meant: a whole id, the beginning of one, or the latest."""

from __future__ import annotations

import difflib

from segue.cli.progress import bar
from segue.errors import SessionNotFound, UsageError
from segue.session.db import SessionDB

SHOWN = 5
"""How many ids an error suggests at most."""


def existing(db: SessionDB, prefix: str) -> str:
    """The one session whose id is `prefix` or begins with it. Never creates one.

    Raises `SessionNotFound` or `UsageError` (more than one), naming candidates.
    """
    known = db.store.sessions()
    if prefix in known:
        return prefix
    matching = [session_id for session_id in known if prefix and session_id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"{prefix!r} is the beginning of {len(matching)} sessions: {_some(matching)}")
    close = difflib.get_close_matches(prefix, known, n=SHOWN, cutoff=0.5)
    hint = f"did you mean {_some(close)}?" if close else "`segue sessions list` shows those there are"
    raise SessionNotFound(f"there is no session {prefix!r}: {hint}")


def latest(db: SessionDB) -> str:
    """The most recently active session. Raises `SessionNotFound` when none has a turn."""
    with bar("reading sessions that changed") as progress:
        listed = db.list_sessions(limit=1, progress=progress)
    if not listed:
        raise SessionNotFound("there is no session to continue: leave --continue out to start one")
    return listed[0].session_id


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(ids[:SHOWN]) + more
