"""Following a journal: woken by appends of this process, polling for those of others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from segue.events.envelope import Envelope
from segue.stores.git.faults import naming
from segue.stores.git.segments import read_rows
from segue.stores.git.session import GitSession

POLL = (0.02, 0.25)
"""Seconds between two looks at `acknowledged`: right after a row, and when nothing has come for a while."""


def watch_rows(session: GitSession, after_seq: int, stop: threading.Event) -> Iterator[list[Envelope]]:
    """Batches of rows, a segment at most, until `stop` is set.

    Raises CorruptJournal, SessionNotFound, StorageError.
    """
    pause = POLL[0]
    while not stop.is_set():
        rows = _new_rows(session, after_seq)
        if rows:
            after_seq, pause = rows[-1].seq, POLL[0]
            yield rows
        else:
            _wait(session, after_seq, pause)
            pause = min(pause * 1.3, POLL[1])


def _new_rows(session: GitSession, after_seq: int) -> list[Envelope]:
    with naming(session.paths.history, "read"):
        until = session.position()
        if until.seq <= after_seq:
            return []
        return list(read_rows(session.paths, until, after_seq))


def _wait(session: GitSession, after_seq: int, seconds: float) -> None:
    """Returns at once when a row was published between the look and the wait."""
    with session.published, naming(session.paths.history, "read"):
        if session.position().seq <= after_seq:
            session.published.wait(seconds)
