"""The index of one store: listing and search over all its sessions, right whenever it is asked."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from segue import ids
from segue.errors import SessionNotFound, StorageError
from segue.fold.summary import SessionInfo
from segue.index import searching
from segue.index.database import Damaged, Database, Unusable, fault, remove
from segue.index.filters import Filters
from segue.index.indexing import Progress, catch_up, decode_info, forget
from segue.index.searching import Found
from segue.index.words import parse
from segue.stores.protocol import Store

T = TypeVar("T")
TRIES = 4
RETRY_SECONDS = 60.0
"""How long a file that could not be used is left alone."""
log = logging.getLogger("segue.index")


class SessionIndex:
    """Thread-safe; in as many processes as you like. Making it does no I/O.

    With a path the index is a file, which may be deleted at any time; the only one of its store, because it takes the
    change marks away. Without one, or as long as the file cannot be used, it is in memory and made anew for each
    process. All methods may raise `StorageError`.
    """

    def __init__(self, store: Store, path: Path | None = None, *, clock: ids.Clock = ids.utc_now) -> None:
        self.store, self.path = store, path
        self._clock = clock
        self._database: Database | None = None
        self._start_anew()

    def listed(
        self,
        filters: Filters,
        *,
        limit: int | None = None,
        offset: int = 0,
        progress: Progress | None = None,
    ) -> list[SessionInfo]:
        """Sessions that pass, the most recently active first; those that cannot be read are last."""

        def work(database: Database) -> list[SessionInfo]:
            catch_up(database, self.store, progress)
            condition, values = self._condition(database, filters)
            rows = database.rows(
                "listed",
                condition,
                limit=-1 if limit is None else max(limit, 0),
                offset=max(offset, 0),
                **values,
            )
            return [self._now(decode_info(row[0])) for row in rows]

        return self._with_database(work)

    def search(
        self, query: str, filters: Filters, *, limit: int = 20, progress: Progress | None = None
    ) -> list[Found]:
        """Sessions that say it, the best first. `segue.index.words.parse` says what a query is.

        Raises `UsageError` when there is nothing to search for.
        """
        parsed = parse(query)

        def work(database: Database) -> list[Found]:
            catch_up(database, self.store, progress)
            condition, values = self._condition(database, filters)
            found = searching.search(database, parsed, condition, values, max(limit, 0), self._clock())
            return [msgspec.structs.replace(one, session=self._now(one.session)) for one in found]

        return self._with_database(work)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Make it anew from the journals, whatever there is. Gives the number of sessions."""
        with self._lock:
            self.close()
            if self.path is not None and self.path.parent.is_dir():
                try:
                    remove(self.path)
                except OSError as error:
                    raise StorageError(f"cannot remove {self.path}: {error.strerror}") from error

        def work(database: Database) -> int:
            catch_up(database, self.store, progress)
            return len(database.rows("session_ids"))

        return self._with_database(work)

    def forget(self, session_id: str) -> None:
        """Read this session anew from its first row when somebody asks next."""
        self._with_database(lambda database: forget(database, session_id))

    def close(self) -> None:
        with self._lock:
            if self._database is not None and self._pid == os.getpid():
                self._database.close()
            self._database = None

    def _start_anew(self) -> None:
        self._lock = threading.RLock()
        self._database = None
        self._pid = os.getpid()
        self._retry_at = 0.0

    def _with_database(self, work: Callable[[Database], T]) -> T:
        """Do the work, which can be repeated, with a file that is an index; else with an index in memory."""
        if self._pid != os.getpid():
            _inherited.append(self._database)  # closing it here would shut the parent's
            self._start_anew()
        with self._lock:
            for _ in range(TRIES):
                try:
                    return work(self._opened())
                except sqlite3.Error as error:
                    self._give_up(fault(error))
                except (Damaged, Unusable) as problem:
                    self._give_up(problem)
        raise StorageError(f"the index {self.path or 'in memory'} cannot be used: {_REMEDY}")

    def _opened(self) -> Database:
        in_file, database = self._may_be_a_file(), self._database
        if database is not None and (database.path is not None) == in_file and database.is_current():
            return database
        self.close()
        self._database = Database(self.path if in_file else None)
        return self._database

    def _may_be_a_file(self) -> bool:
        return self.path is not None and time.monotonic() >= self._retry_at and self.path.parent.is_dir()

    def _give_up(self, problem: Exception) -> None:
        """Take a damaged file away; use none for a while when there can be none. In memory nothing can be mended."""
        database, self._database = self._database, None
        if database is not None:
            database.close()
        if self.path is None or not self._may_be_a_file():
            raise StorageError(f"SQLite cannot index sessions here: {problem}") from problem
        if isinstance(problem, Damaged):
            try:
                remove(self.path, database)
                log.info("the index %s is made anew: %s", self.path, problem)
                return
            except OSError as error:
                problem = Unusable(error.strerror)
        log.warning("the index %s cannot be used, so sessions are read one by one: %s", self.path, problem)
        self._retry_at = time.monotonic() + RETRY_SECONDS

    def _condition(self, database: Database, filters: Filters) -> tuple[str, dict[str, Any]]:
        alive = []
        if filters.status in ("running", "interrupted"):
            running = [row[0] for row in database.rows("with_status", status="running")]
            alive = [session_id for session_id in running if self._is_held(session_id)]
        return filters.condition(alive)

    def _now(self, info: SessionInfo) -> SessionInfo:
        """A turn whose process died is shown as interrupted, although the record does not say so yet."""
        if info.status == "running" and not self._is_held(info.session_id):
            return msgspec.structs.replace(info, status="interrupted")
        return info

    def _is_held(self, session_id: str) -> bool:
        try:
            return self.store.holder(session_id) is not None
        except SessionNotFound:
            return False
        except StorageError:  # nobody can tell
            return True


_inherited: list[Database | None] = []
_REMEDY = "remove it, or choose another place with SEGUE_HOME"
