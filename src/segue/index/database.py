"""The SQLite file of the index, or one in memory where there can be no file.

The file is a cache: what is no index of this version is replaced, under a lock on its folder. Whoever has the old file
open finds out before the next use, and before a change mark is taken away for what was written to it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from segue.index.queries import query, schema

VERSION = 2
"""Of the schema and of what is indexed how."""
APPLICATION = 0x5E60E1DE
"""SQLite's application id: tells an index from other people's databases."""
BUSY_SECONDS = 10.0
"""How long another process may be writing; it writes for moments."""


class Damaged(Exception):
    """The file is no index of this version, or not any more: a new one has to take its place."""


class Unusable(Exception):
    """There can be no file here now. Says why."""


class Database:
    """One connection. Not thread-safe. Methods raise sqlite3.Error, which `fault` tells apart."""

    def __init__(self, path: Path | None) -> None:
        """Opens the file, made anew when it is missing or no index; with None, in memory. Raises Damaged, Unusable."""
        self.path = path
        self._identity: tuple[int, int] | None = None
        if path is None:
            self._open(":memory:")
            return
        try:
            with _locked(path.parent):
                self._open_or_replace(path)
        except OSError as error:
            raise Unusable(os.strerror(error.errno) if error.errno else str(error)) from error

    def is_current(self) -> bool:
        """Whether the file is still the one that is open here."""
        return self.path is None or _identity(self.path) == self._identity

    def rows(self, name: str, filters: str = "", /, **values: Any) -> list[Any]:
        """What a named query gives; `filters` goes where it says {filters}."""
        statement = query(name)
        return self._connection.execute(
            statement.replace("{filters}", filters) if filters else statement, values
        ).fetchall()

    def value(self, name: str, /, **values: Any) -> Any:
        """The first column of the first row, None when there is none."""
        row = self._connection.execute(query(name), values).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, durable when the with-block ends; nothing of it is left when that raises."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _open_or_replace(self, path: Path) -> None:
        try:
            self._open_file(path)
        except Damaged:
            _unlink(path)
            self._open_file(path)

    def _open_file(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._identity = _identity(path)
        self._open(str(path))

    def _open(self, name: str) -> None:
        self._connection = sqlite3.connect(
            name, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise fault(error) from error
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        if self.path is not None:
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")  # a mark is taken away for what is durable only
        application, version = (execute(f"PRAGMA {name}").fetchone()[0] for name in _STAMPS)
        if (application, version) == (APPLICATION, VERSION):
            return
        if application == APPLICATION and version > VERSION:
            raise Unusable(f"a later version of Segue made it (index version {version}, not {VERSION})")
        if execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Damaged(f"it is no index of version {VERSION}")
        stamps = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
        self._connection.executescript(f"BEGIN IMMEDIATE; {schema()} {stamps} COMMIT;")


_STAMPS = ("application_id", "user_version")
_UNUSABLE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_AUTH,
}


def fault(error: sqlite3.Error) -> Exception:
    """Unusable for what the place is to blame for; Damaged for all else."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return Unusable(str(error)) if code in _UNUSABLE else Damaged(str(error))


def remove(path: Path, database: Database | None = None) -> None:
    """Take the file away, unless it is another one than this database's by now. Raises OSError."""
    with _locked(path.parent):
        if database is None or database.is_current():
            _unlink(path)


def _unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{suffix}")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on the folder, so that nobody opens an index in it that somebody takes away. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
