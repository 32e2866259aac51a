"""A git store and the file of its index, on a file system in memory where there is one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from segue.events import InvocationStarted, MessageDelta, MessageEnd, MessageStart, NoMoreActions
from segue.fold import SessionInfo
from segue.session.db import SessionDB
from segue.stores.git import GitStore

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Durability is not what these tests are about, and a disk is slow."""
Line = tuple[str, str, int, str]
"""Of a listing: id, title, turns and status."""


class Home(SessionDB):
    """The sessions of a home, opened once more, as another process would."""

    def __init__(self, place: Path) -> None:
        super().__init__(GitStore(place / "sessions", commits=False), index=place / "index.sqlite")

    def turn(self, session_id: str, words: str, reply: str = "an answer") -> None:
        """One settled turn of five rows."""
        self.create_session(session_id)
        journal = self.journal(session_id)
        number = journal.last_seq
        lease = journal.acquire(holder="test")
        journal.append(
            InvocationStarted(
                invocation_id=f"i{number}",
                turn_id=f"t{number}",
                reason={"kind": "user_message", "input": words},
            ),
            MessageStart(message_id=f"m{number}"),
            MessageDelta(message_id=f"m{number}", delta={"type": "text", "text": reply}),
            MessageEnd(message_id=f"m{number}"),
            NoMoreActions(),
            lease=lease,
        )
        journal.release(lease)

    def look(self) -> list[Line]:
        return [_line(info) for info in self.list_sessions(without_turns=True)]

    def folded(self) -> list[Line]:
        """What the listing should be, from the journals, without the index."""
        infos = [info for name in self.store.sessions() if (info := self.get_session(name)) is not None]
        return list(map(_line, sorted(infos, key=lambda info: info.active_at, reverse=True)))

    def saying(self, query: str) -> list[str]:
        return sorted(found.session.session_id for found in self.search_sessions(query, limit=10_000))

    def right(self) -> bool:
        """Listing and search say what the journals say; all sessions have `words`."""
        return self.look() == self.folded() and self.saying("words") == self.store.sessions()


def _line(info: SessionInfo) -> Line:
    return info.session_id, info.title, info.turns, info.status


@pytest.fixture
def place() -> Iterator[Path]:
    """A home: `sessions` and `index.sqlite` are in it."""
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def open_home(place: Path) -> Iterator[Callable[[], Home]]:
    opened: list[Home] = []

    def open_home() -> Home:
        opened.append(Home(place))
        return opened[-1]

    yield open_home
    for home in opened:
        home.close()


@pytest.fixture
def here(open_home: Callable[[], Home]) -> Home:
    return open_home()
