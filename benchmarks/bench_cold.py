"""Opening a session cold: to its messages out of the fold cache and without it, and to the first prompt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_fold import tool_heavy, typical
from harness import Row, medians, scratch

from segue.events import Event
from segue.events.codec import decode_row, encode_payload
from segue.fold import CallGraph, Conversation, Turns
from segue.ids import new_id, utc_now
from segue.journal import Journal
from segue.stores.git import GitStore
from segue.stores.protocol import Draft

Turn = Callable[[int], list[Event]]


def run(quick: bool) -> list[Row]:
    with scratch() as folder:
        return [
            row
            for turns in ((100, 1_000) if quick else (1_000, 5_000))
            for name, turn in (("typical", typical), ("tool-heavy", tool_heavy))
            for row in Long(folder / f"{name}{turns}", turn, turns).measured(name, 5 if quick else 11)
        ]


class Long:
    """A session of many turns."""

    def __init__(self, root: Path, turn: Turn, turns: int) -> None:
        self.root, self.turns = root, turns
        store = GitStore(root, commits=False)
        store.create("long")
        lease = store.acquire("long", holder="benchmark")
        for number in range(turns):
            written = store.submit("long", [_draft(event) for event in turn(number)], lease=lease)
        written.result()
        store.release(lease)
        self.lines = list(store.read_lines("long"))
        store.close()

    def measured(self, name: str, rounds: int) -> list[Row]:
        messages = self.open(Conversation).messages()
        text = json.dumps(messages)
        self.open(CallGraph), self.open(Turns)
        cached, loads = medians(self.to_messages, lambda: json.loads(text), rounds)
        uncached, decoded = medians(self.without_cache, self.decode, max(3, rounds // 3))
        size = sum(path.stat().st_size for path in (self.root / "long" / "cache").iterdir())
        about = f"{self.turns:,} {name} turns, {len(self.lines):,} rows, {len(messages):,} messages"
        return [
            Row(
                f"cold open to messages: {self.turns:,} {name} turns",
                cached / loads,
                2.0,
                f"{about}: {cached * 1e3:.1f} ms over {loads * 1e3:.1f} ms for json.loads of them;"
                f" cache {size / self.turns:,.0f} bytes a turn",
            ),
            Row(
                f"the same without its cache: {self.turns:,} {name} turns",
                uncached / decoded,
                1.5,
                f"{uncached * 1e3:.0f} ms over {decoded * 1e3:.0f} ms for decoding the rows; writes the cache",
            ),
        ]

    def open(self, cls: type[Any]) -> Any:
        store = GitStore(self.root)
        try:
            return Journal(store, "long").view(cls)
        finally:
            store.close()

    def to_messages(self) -> None:
        self.open(Conversation).messages()

    def without_cache(self) -> None:
        shutil.rmtree(self.root / "long" / "cache")
        self.to_messages()

    def decode(self) -> None:
        for line in self.lines:
            decode_row(line)


def _draft(event: Event) -> Draft:
    return Draft(new_id("evt"), "local", event.TYPE, encode_payload(event), utc_now())
