"""Thousands of sessions for the benchmarks of listing and search, made by the store itself, but without waiting for the
disk: what is there is what the store would have written.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from segue.events import (
    Event,
    InvocationStarted,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    ToolCall,
    ToolResult,
)
from segue.session.db import SessionDB
from segue.stores.git import GitStore

RARE, COMMON, PHRASE, CJK = "quixotry", "report", "water damage", "屋根"
"""In 1 of 500 sessions, in all, in 1 of 50 (its words in far more), and in 1 of 20."""
TURNS = 3
_LETTERS = "aeioulnrst"
_WORDS = ["".join(letters) for letters in itertools.product(_LETTERS, _LETTERS, _LETTERS, "ek")]


def open_home(home: Path) -> SessionDB:
    return SessionDB(GitStore(home / "sessions", commits=False), index=home / "index.sqlite")


def fill(home: Path, sessions: int, turns: int = TURNS, advance: Callable[[], Any] = lambda: None) -> None:
    """Sessions of a few turns: a question, a tool call, a streamed answer; 14 rows a turn."""
    chance = random.Random(1)
    with unsynced():
        db = open_home(home)
        for number in range(sessions):
            grow(db, f"ses_{number:05d}", turns, chance, _extra(number))
            advance()
        db.close()


def grow(db: SessionDB, session_id: str, turns: int, chance: random.Random, extra: str = "") -> None:
    """More turns in a session, each one append; `extra` is in what is asked."""
    db.create_session(session_id, title=_text(chance, 4) if chance.random() < 0.3 else "")
    journal = db.journal(session_id)
    lease = journal.acquire(holder="benchmark")
    for _ in range(turns):
        journal.append(*_turn(chance, journal.last_seq, extra), lease=lease)
    journal.release(lease)


@contextmanager
def unsynced() -> Iterator[None]:
    """Nothing waits for the disk."""
    before = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = lambda descriptor: None  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync, os.fdatasync = before


def _extra(number: int) -> str:
    words = [RARE] * (number % 500 == 7) + [f"{CJK}が漏れています"] * (number % 20 == 3)
    return " ".join([*words, PHRASE if number % 50 == 5 else "water and damage"])


def _turn(chance: random.Random, number: int, extra: str) -> list[Event]:
    question = f"{COMMON} {_text(chance, 15)} {extra}"
    answer = [
        MessageDelta(message_id=f"m{number}", delta={"type": "text", "text": f"{_text(chance, 12)} "})
        for _ in range(8)
    ]
    return [
        InvocationStarted(
            invocation_id=f"i{number}",
            turn_id=f"turn_{number}",
            reason={"kind": "user_message", "input": question},
            source="cli",
        ),
        ToolCall(
            tool_call_id=f"c{number}", name="read_file", arguments={"path": f"src/{_text(chance, 1)}.py"}
        ),
        ToolResult(tool_call_id=f"c{number}", result={"text": _text(chance, 60)}),
        MessageStart(message_id=f"m{number}"),
        *answer,
        MessageEnd(message_id=f"m{number}"),
        NoMoreActions(turn_id=f"turn_{number}"),
    ]


def _text(chance: random.Random, words: int) -> str:
    """Frequent and rare words, as in any language."""
    return " ".join(_WORDS[int(len(_WORDS) * chance.random() ** 3)] for _ in range(words))
