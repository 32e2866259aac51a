"""SessionDB: the sessions of one store, for code that looks at them from outside a turn."""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Unpack

import msgspec

from segue.errors import SessionNotFound, StaleWriter
from segue.events.envelope import Envelope
from segue.events.facts import SessionCreated, SessionUpdated
from segue.fold.summary import SessionInfo, Summary
from segue.fold.turns import Turns
from segue.index import FilterFields, Filters, Found, Progress, SessionIndex
from segue.journal import Journal, open_journal
from segue.settings import home_key, load_settings
from segue.stores.git import GitStore
from segue.stores.protocol import Store

KEPT_OPEN = 64
"""Journals kept warm, so that the next turn on one costs in proportion to what is new."""


class SessionDB:
    """Thread-safe. Every method that is given a session, but `create_session` and `get_session`, raises
    `SessionNotFound` for an unknown id, and all raise `InvalidSessionId` or `StorageError`.

    `index` is where the index of this store is kept; without it each process makes its own, in memory.
    """

    def __init__(self, store: Store, *, deployment_id: str = "local", index: Path | None = None) -> None:
        self.store = store
        self._index = SessionIndex(store, index)
        self.deployment_id = deployment_id
        self._journals: OrderedDict[str, Journal] = OrderedDict()
        self._lock = threading.Lock()

    def create_session(
        self, session_id: str, agent_id: str = "main", *, source: str = "code", title: str = ""
    ) -> bool:
        """Make the session if there is none under that id. Returns whether it was made."""
        with self._lock:
            if session_id in self._journals:
                return False
        self.store.create(session_id)
        journal = self.journal(session_id)
        if journal.last_seq > 0:
            return False
        try:
            created = SessionCreated(agent_id=agent_id, source=source, title=title, cwd=os.getcwd())
            journal.append(created, expected_seq=0)
        except StaleWriter:  # another process created it in between
            return False
        return True

    def get_session(self, session_id: str) -> SessionInfo | None:
        """What a listing says of the session, or None when there is none. A turn whose process died is shown as
        interrupted, although the record says so only once somebody opens the session."""
        if not self.store.exists(session_id):
            return None
        with self.journal(session_id).viewing(Summary) as summary:
            info = msgspec.structs.replace(summary.info(), session_id=session_id)  # also before its first row
        if info.status == "running" and self.store.holder(session_id) is None:
            info = msgspec.structs.replace(info, status="interrupted")
        return info if info.events else msgspec.structs.replace(info, session_id=session_id)

    def update_session(self, session_id: str, **fields: Any) -> None:
        """Set `title`, `archived`, `pinned` or `tags`; what is not named stays."""
        self.journal(session_id).append(SessionUpdated(**fields))

    def delete_session(self, session_id: str) -> None:
        """Erase the session for good. Raises `SessionBusy` while a turn runs."""
        self.store.delete(session_id)
        with self._lock:
            self._journals.pop(session_id, None)

    def list_sessions(
        self,
        *,
        without_turns: bool = False,
        limit: int | None = None,
        offset: int = 0,
        progress: Progress | None = None,
        **filters: Unpack[FilterFields],
    ) -> list[SessionInfo]:
        """Sessions, the most recently active first; `without_turns` includes those that never had a turn.

        One that cannot be read is last, with the status `damaged`. `filters` are those of `segue.index.Filters`.
        `progress(done, total)` is called while sessions that changed are read.
        """
        chosen = Filters(without_turns=without_turns, **filters)
        return self._index.listed(chosen, limit=limit, offset=offset, progress=progress)

    def search_sessions(
        self,
        query: str,
        *,
        limit: int = 20,
        progress: Progress | None = None,
        **filters: Unpack[FilterFields],
    ) -> list[Found]:
        """Sessions where a message, a call's arguments or result, a question, an answer, the title or a tag says it.

        All words have to be there, in any order; "phrases" in theirs; -words must not be; beginnings* stand for all
        words that begin so, and so does the last word. The best and most recent are first. Raises `UsageError` when
        there is nothing to search for.
        """
        return self._index.search(query, Filters(**filters), limit=limit, progress=progress)

    def reindex(self, progress: Progress | None = None) -> int:
        """Make the index anew from the journals; gives the number of sessions. Needed only after a session's folder
        was replaced by hand by another state of the same session."""
        return self._index.rebuild(progress)

    def reindex_session(self, session_id: str) -> None:
        """Read one session anew from its first row: for whoever changed rows in the middle, as a repair does."""
        self._index.forget(session_id)

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        return self.journal(session_id).read(after_seq)

    def watch(
        self, session_id: str, after_seq: int = 0, *, stop: threading.Event | None = None
    ) -> Iterator[Any]:
        """Batches of envelopes, now and as they become visible, from any process, until `stop` is set; a
        `segue.stores.protocol.Stop` ends the wait for rows at once."""
        return self.journal(session_id).watch(after_seq, stop=stop)

    def journal(self, session_id: str) -> Journal:
        with self._lock:
            journal = self._journals.get(session_id)
            if journal is not None:
                self._journals.move_to_end(session_id)
                return journal
        if not self.store.exists(session_id):
            raise SessionNotFound(
                f"there is no session {session_id!r}: `segue sessions list` shows those there are"
            )
        journal = open_journal(self.store, session_id, deployment_id=self.deployment_id)
        with self._lock:
            self._journals[session_id] = journal
            if len(self._journals) > KEPT_OPEN:
                self._journals.popitem(last=False)
        return journal

    def turns(self, session_id: str) -> Turns:
        return self.journal(session_id).view(Turns)

    def close(self) -> None:
        self.store.close()
        self._index.close()


_databases: dict[tuple[str, int], SessionDB] = {}
_databases_lock = threading.Lock()


def default_db() -> SessionDB:
    """The sessions under SEGUE_HOME (`~/.segue`), opened once per process; closed, commits drained, at exit."""
    key = (home_key(), os.getpid())
    db = _databases.get(key)
    if db is not None:
        return db
    with _databases_lock:
        if key not in _databases:
            _databases[key] = _open_default()
        return _databases[key]


def _open_default() -> SessionDB:
    settings = load_settings()
    db = SessionDB(GitStore(settings.sessions), deployment_id=settings.deployment_id, index=settings.index)
    atexit.register(db.close)
    return db
