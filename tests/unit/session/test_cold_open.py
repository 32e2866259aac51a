"""What a new process reads of a long session before its first prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue import agentic_function
from segue.events import Envelope
from segue.journal import cache
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.git import GitStore

TURNS = 40


class Counting(GitStore):
    """Counts the rows that are read."""

    rows = 0

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        for row in super().read(session_id, after_seq):
            self.rows += 1
            yield row


@agentic_function
def ask(question: str, runtime: Any = None) -> str:
    """Answer shortly."""
    return str(runtime.exec(question))


def turn(root: Path, number: int) -> tuple[int, Scripted]:
    """One turn in what is a process of its own for the session; how many rows it read until it was over."""
    store, model = Counting(root), Scripted([f"answer {number}"])
    db = SessionDB(store)
    with session_context("chat", runtime=Runtime(model), db=db):
        ask(f"question {number}")
    db.close()
    return store.rows, model


def test_a_turn_reads_no_more_rows_of_a_long_session_than_of_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ROWS", 30)
    read = [turn(tmp_path, number)[0] for number in range(TURNS)]
    some = 1.2  # the thread that tails reads now and then, too
    assert max(read[TURNS // 2 :]) <= some * max(read[: TURNS // 2])


def test_the_prompt_of_a_turn_does_not_tell_whether_earlier_turns_came_out_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ROWS", 30)
    saved = [turn(tmp_path / "saved", number)[1] for number in range(TURNS)]
    monkeypatch.setattr(cache, "ROWS", 10**9)
    bare = [turn(tmp_path / "bare", number)[1] for number in range(TURNS)]
    assert (tmp_path / "saved" / "chat" / "cache").exists()
    assert not (tmp_path / "bare" / "chat" / "cache").exists()
    assert [model.requests[0].messages for model in saved] == [model.requests[0].messages for model in bare]
