"""The systems whose growth is measured: each keeps one session in a folder of its own and does the same work."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from growth_work import MESSAGES, Message, Turn, folded

from segue.fold.conversation import Conversation
from segue.ids import utc_now
from segue.session.db import SessionDB
from segue.stores.git import GitStore
from segue.stores.git.packing import pack

try:
    from agents import SQLiteSession
except ImportError:
    SQLiteSession = None  # type: ignore[assignment,misc]

FILL = 100
"""Turns that share a sync while a session is filled."""


class System(Protocol):
    """One session in this process. `turn` returns when all rows of the turn are durable."""

    name: str
    note: str
    """How it is used here."""
    items: bool
    """Whether it keeps items of the Responses API, not rows: a text and a call of one message are two."""

    def __init__(self, folder: Path) -> None: ...

    def fill(self, turns: Iterable[Turn]) -> None:
        """Many turns, as fast as the system's own interface goes; each one settled."""

    def turn(self, turn: Turn) -> None: ...

    def newest(self) -> list[Message]:
        """The messages of the last turn, in a process that read all earlier ones before."""

    def settle(self) -> None:
        """Finish what the system does after a turn off its caller's path."""

    def messages(self) -> list[Message]:
        """All messages, as a process reads them that opens the session now."""

    def pack(self) -> None:
        """Bring the files into the shape that they have at rest."""

    def close(self) -> None: ...


class Segue:
    name = "Segue"
    note = "git store, a commit after every turn"
    items = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = SessionDB(GitStore(folder))
        self.db.create_session("s1")
        self.journal = self.db.journal("s1")
        self.lease = self.journal.acquire(holder="benchmark")
        self.longest = 0.0
        """Seconds of the longest commit, packing included."""

    def fill(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            self.journal.submit(*turn.events, lease=self.lease).result()
            self.settle()

    def turn(self, turn: Turn) -> None:
        for events in turn.appends():
            self.journal.append(*events, lease=self.lease)

    def newest(self) -> list[Message]:
        return self.journal.view(Conversation).messages(-MESSAGES)

    def settle(self) -> None:
        store = self.db.store
        assert isinstance(store, GitStore)
        start = time.perf_counter()
        store.commit("s1", "turn")
        assert store.drain_commits(60)
        self.longest = max(self.longest, time.perf_counter() - start)

    def messages(self) -> list[Message]:
        db = SessionDB(GitStore(self.folder))
        messages = db.journal("s1").view(Conversation).messages()
        db.close()
        return messages

    def pack(self) -> None:
        pack(self.folder / "s1" / ".git")

    def packs(self) -> int:
        return len(list(self.folder.glob("s1/.git/objects/pack/*.pack")))

    def close(self) -> None:
        self.journal.release(self.lease)
        self.db.close()


class Sqlite:
    name = "SQLite"
    note = "WAL, synchronous=FULL, one row an event, a transaction an append"
    items = False

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "sessions.db"
        self.connection = self._connect()
        self.connection.execute(
            "CREATE TABLE events (session_id TEXT, seq INTEGER, type TEXT, payload TEXT, created_at TEXT,"
            " PRIMARY KEY (session_id, seq)) WITHOUT ROWID"
        )
        self.seq = itertools.count(1)
        self.read = 0

    def fill(self, turns: Iterable[Turn]) -> None:
        for some in batches(turns):
            self._append([row for turn in some for row in turn.rows])

    def turn(self, turn: Turn) -> None:
        for rows in turn.row_appends():
            self._append(rows)

    def newest(self) -> list[Message]:
        rows = self._rows(self.connection, self.read)
        self.read += len(rows)
        return folded(rows)[-MESSAGES:]

    def settle(self) -> None:
        pass

    def messages(self) -> list[Message]:
        connection = self._connect()
        try:
            return folded(self._rows(connection, 0))
        finally:
            connection.close()

    def pack(self) -> None:
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self.connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _append(self, rows: list[dict[str, Any]]) -> None:
        now = utc_now()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO events VALUES ('s1', ?, ?, ?, ?)",
            [(next(self.seq), row["type"], json.dumps(row["payload"]), now) for row in rows],
        )
        self.connection.execute("COMMIT")

    @staticmethod
    def _rows(connection: sqlite3.Connection, after: int) -> list[dict[str, Any]]:
        found = connection.execute(
            "SELECT type, payload FROM events WHERE session_id = 's1' AND seq > ? ORDER BY seq", (after,)
        )
        return [{"type": kind, "payload": json.loads(payload)} for kind, payload in found]


class JsonLines:
    name = "JSONL file"
    note = "one write and fdatasync an append, no lock, no check"
    items = False

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "s1.jsonl"
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.seq = itertools.count(1)
        self.read = 0

    def fill(self, turns: Iterable[Turn]) -> None:
        for some in batches(turns):
            self._append([row for turn in some for row in turn.rows])

    def turn(self, turn: Turn) -> None:
        for rows in turn.row_appends():
            self._append(rows)

    def newest(self) -> list[Message]:
        return self._folded_from(self.read)[-MESSAGES:]

    def settle(self) -> None:
        pass

    def messages(self) -> list[Message]:
        return self._folded_from(0)

    def pack(self) -> None:
        pass

    def close(self) -> None:
        os.close(self.file)

    def _append(self, rows: list[dict[str, Any]]) -> None:
        now = utc_now()
        lines = [
            json.dumps({"session_id": "s1", "seq": next(self.seq), **row, "created_at": now}) for row in rows
        ]
        os.write(self.file, ("\n".join(lines) + "\n").encode())
        os.fdatasync(self.file)

    def _folded_from(self, offset: int) -> list[Message]:
        with open(self.path, "rb") as file:
            file.seek(offset)
            messages = folded([json.loads(line) for line in file])
            self.read = file.tell()
        return messages


class AgentsSession:
    name = "Agents SQLiteSession"
    note = "messages only: no event, no half answer, so three writes a turn"
    items = True

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "sessions.db"
        self.loop = asyncio.Runner()
        self.session = SQLiteSession("s1", self.path)

    def fill(self, turns: Iterable[Turn]) -> None:
        for some in batches(turns):
            self.loop.run(self.session.add_items([item for turn in some for item in turn.items]))

    def turn(self, turn: Turn) -> None:
        question, text, call, result, answer = turn.items
        for part in ([question, text, call], [result], [answer]):
            self.loop.run(self.session.add_items(part))

    def newest(self) -> list[Message]:
        return self.loop.run(self.session.get_items(limit=MESSAGES + 1))

    def settle(self) -> None:
        pass

    def messages(self) -> list[Message]:
        session = SQLiteSession("s1", self.path)
        try:
            return self.loop.run(session.get_items())
        finally:
            session.close()

    def pack(self) -> None:
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()

    def close(self) -> None:
        self.session.close()
        self.loop.close()


SYSTEMS: list[type[System]] = [Segue, Sqlite, JsonLines, *([AgentsSession] if SQLiteSession else [])]
"""The agents package is in the dependency group `bench`; without it the others are measured."""


def batches(turns: Iterable[Turn]) -> Iterable[list[Turn]]:
    iterator = iter(turns)
    while some := list(itertools.islice(iterator, FILL)):
        yield some
