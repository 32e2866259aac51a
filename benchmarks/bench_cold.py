"""Opening a session cold, out of the fold cache and without it, and what the cache costs while it grows."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from bench_fold import tool_heavy, typical
from harness import Row, medians, scratch, seconds

from segue.events import (
    CallEnded,
    CallStarted,
    Event,
    InvocationStarted,
    MessageDelta,
    MessageEnd,
    MessageStart,
)
from segue.events.codec import decode_row, encode_payload
from segue.events.facts import NoMoreActions
from segue.fold import CallGraph, Conversation, Turns, Waits
from segue.ids import new_id, utc_now
from segue.journal import Journal
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.prompt import render
from segue.stores.git import GitStore
from segue.stores.protocol import Draft

OPENED = (Turns, Waits, CallGraph, Conversation)
"""The views that a session needs for its next turn."""


def run(quick: bool) -> list[Row]:
    many = (100, 1_000) if quick else (1_000, 5_000)
    rounds = 5 if quick else 15
    rows: list[Row] = []
    with scratch() as folder:
        for turns in many:
            for name, turn in (("typical", typical), ("tool-heavy", tool_heavy)):
                rows += Long(folder / f"{name}{turns}", turn, turns).to_messages(name, rounds)
        for turns in (10, *many):
            rows.append(Long(folder / f"prompt{turns}", agentic, turns).to_first_prompt(rounds))
        rows.append(writing(folder / "writing", 40 if quick else 200))
        rows.append(next_turn(folder / "next", many[-1], 40 if quick else 200))
    return rows


class Long:
    """A session of many turns, its views saved."""

    def __init__(self, root: Path, turn: Callable[[int], list[Event]], turns: int) -> None:
        self.root, self.turns = root, turns
        store = GitStore(root, commits=False)
        store.create("long")
        lease = store.acquire("long", holder="benchmark")
        for future in [store.submit("long", drafts(turn(number)), lease=lease) for number in range(turns)]:
            future.result()
        store.release(lease)
        self.lines = list(store.read_lines("long"))
        store.close()
        for cls in OPENED:
            self._view(cls)
        self.text = json.dumps(self._view(Conversation).messages())

    def to_messages(self, name: str, rounds: int) -> list[Row]:
        cached, loads = medians(lambda: self._view(Conversation).messages(), self._loads, rounds)
        uncached, decoded = medians(self._without_cache, self._decode, max(3, rounds // 3))
        about = f"{self.turns:,} {name} turns"
        size = sum(path.stat().st_size for path in (self.root / "long" / "cache").iterdir())
        return [
            Row(
                f"cold open to messages: {about}",
                cached / loads,
                2.0,
                f"{len(self.lines):,} rows; {cached * 1e3:.1f} ms over {loads * 1e3:.1f} ms for json.loads of the"
                f" messages as one text; the cache of all views has {size / self.turns:,.0f} bytes a turn",
            ),
            Row(
                f"the same without the cache: {about}",
                uncached / decoded,
                1.5,
                f"{uncached * 1e3:.0f} ms over {decoded * 1e3:.0f} ms for decoding the rows",
            ),
        ]

    def to_first_prompt(self, rounds: int) -> Row:
        mine, loads = medians(self._first_prompt, self._loads, rounds)
        detail = f"{mine * 1e3:.1f} ms over {loads * 1e3:.2f} ms for json.loads of the messages; all views"
        return Row(
            f"enter a cold session, to the first prompt: {self.turns:,} turns", mine / loads, None, detail
        )

    def _view(self, cls: type[Any]) -> Any:
        store = GitStore(self.root)
        try:
            return Journal(store, "long").view(cls)
        finally:
            store.close()

    def _without_cache(self) -> None:
        store = GitStore(self.root)
        Conversation().extend(store.read("long")).messages()
        store.close()

    def _first_prompt(self) -> None:
        db = SessionDB(GitStore(self.root))
        with session_context("long", db=db, create_runtime_if_none=False) as session:
            turn = session.writer.turn
            turn.journal.view(Waits)
            turn.history_length()
            turn.journal.view(CallGraph).last_child("")
            render(turn.journal, None, [{"role": "user", "content": "and now?"}])
        db.close()

    def _loads(self) -> None:
        json.loads(self.text)

    def _decode(self) -> None:
        for line in self.lines:
            decode_row(line)


class Living:
    """A session in a process that goes on: each turn is written, then the views are brought up to date."""

    def __init__(self, root: Path, turns: int) -> None:
        Long(root, agentic, turns)
        self.store, self.number = GitStore(root, commits=False), turns
        self.journal = Journal(self.store, "long")
        self.lease = self.store.acquire("long", holder="benchmark")
        self.look()

    def turn(self) -> None:
        self.number += 1
        self.store.append("long", drafts(agentic(self.number)), lease=self.lease)
        self.look()

    def look(self) -> None:
        for cls in OPENED:
            self.journal.view(cls)
        self.journal.view(Conversation).messages(-4)


def writing(root: Path, turns: int) -> Row:
    """A living session beside one that saves nothing; the mean, since a record is written every few turns."""
    ours, bare = Living(root / "ours", 10), Living(root / "bare", 10)
    mine, theirs = [], []
    for _ in range(turns):
        mine.append(seconds(ours.turn))
        with mock.patch("segue.journal.cache.ROWS", 10**9):
            theirs.append(seconds(bare.turn))
    with_it, without = statistics.mean(mine), statistics.mean(theirs)
    ours.store.close(), bare.store.close()
    detail = (
        f"50 rows made durable and folded: {with_it * 1e3:.2f} ms over {without * 1e3:.2f} ms without saving"
    )
    return Row("a turn that also grows the fold cache", with_it / without, 1.2, detail)


def next_turn(root: Path, turns: int, rounds: int) -> Row:
    """On a warm session, long beside short."""
    long, short = Living(root / "long", turns), Living(root / "short", 10)
    mine, theirs = medians(long.turn, short.turn, rounds)
    long.store.close(), short.store.close()
    detail = f"50 rows made durable and folded: {mine * 1e3:.2f} ms after {turns:,} over {theirs * 1e3:.2f} ms after 10"
    return Row("the next turn on a warm session", mine / theirs, 1.2, detail)


def agentic(number: int) -> list[Event]:
    """50 rows: a root call that calls a model, whose answer streams and becomes the exchange's."""
    root, model, message = f"node_{number}", f"node_{number}_m", f"msg_{number}"
    question, answer = f"What of chapter {number}?", "The next part of the answer, some tokens long. " * 20
    pieces = [
        MessageDelta(message_id=message, delta={"type": "text", "text": answer[:47]}, called_by=model)
        for _ in range(39)
    ]
    return [
        InvocationStarted(
            invocation_id=f"inv_{number}",
            turn_id=f"turn_{number}",
            reason={"kind": "direct_call", "input": question},
        ),
        CallStarted(
            node_id=root, kind="function", name="app:ask", arguments={"question": question}, doc="Answer."
        ),
        CallStarted(
            node_id=model, kind="model", name="scripted", called_by=root, arguments={"content": question}
        ),
        MessageStart(message_id=message, called_by=model),
        *pieces,
        MessageEnd(message_id=message, called_by=model),
        CallEnded(node_id=model, status="completed", result=answer, usage={"input_tokens": 900}),
        CallEnded(node_id=root, status="completed", result=answer),
        *[
            MessageStart(message_id=f"{message}r"),
            MessageDelta(message_id=f"{message}r", delta={"type": "text", "text": answer}),
            MessageEnd(message_id=f"{message}r"),
        ],
        NoMoreActions(turn_id=f"turn_{number}"),
    ]


def drafts(events: list[Event]) -> list[Draft]:
    return [Draft(new_id("evt"), "local", event.TYPE, encode_payload(event), utc_now()) for event in events]
