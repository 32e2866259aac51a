"""The git store beside raw `os.write` and `fdatasync` of the same bytes."""

from __future__ import annotations

import os
import statistics
from concurrent.futures import Future
from pathlib import Path

from harness import Row, paired, scratch, seconds

from segue.ids import new_id, utc_now
from segue.stores.git import GitStore
from segue.stores.git.session import framed
from segue.stores.protocol import Draft, Lease

PARTS = (5, 20, 20, 5)
"""A turn of 50 rows, in four appends."""
PAYLOAD = b'{"message_id":"m_0123456789abcdef","text":"' + b"some words of a reply " * 12 + b'"}'


def run(quick: bool) -> list[Row]:
    with scratch() as folder:
        return [
            *durable_turn(folder, rounds=31 if quick else 201),
            many_sessions(folder, rounds=3 if quick else 9),
            flat_append(folder, 500 if quick else 10_000),
            commit_off_path(folder, rounds=31 if quick else 101),
        ]


class Writer:
    """One session of our store, with its lease."""

    def __init__(self, root: Path, session_id: str = "s1", store: GitStore | None = None) -> None:
        self.store = store or GitStore(root)
        self.session_id = session_id
        self.store.create(session_id)
        self.lease: Lease = self.store.acquire(session_id, holder="benchmark")

    def turn(self) -> None:
        for part in PARTS:
            self.store.append(self.session_id, drafts(part), lease=self.lease)

    def submit(self) -> Future[list[int]]:
        return self.store.submit(self.session_id, drafts(sum(PARTS)), lease=self.lease)


class Raw:
    """The same bytes on a file of their own."""

    def __init__(self, path: Path, parts: tuple[int, ...] = PARTS) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.parts = [framed("s1", 1, drafts(part)) for part in parts]

    def turn(self) -> None:
        for part in self.parts:
            os.write(self.descriptor, part)
            os.fdatasync(self.descriptor)


def drafts(count: int) -> list[Draft]:
    return [Draft(DRAFT.id, "local", "MESSAGE_DELTA", PAYLOAD, DRAFT.created_at) for _ in range(count)]


DRAFT = Draft(new_id("evt"), "local", "MESSAGE_DELTA", PAYLOAD, utc_now())


def durable_turn(folder: Path, rounds: int) -> list[Row]:
    ours, raw = Writer(folder / "turn"), Raw(folder / "turn.raw")
    ratio = paired(ours.turn, raw.turn, rounds)
    each = seconds(raw.turn) / len(PARTS) * 1e3
    detail = f"50 rows in {len(PARTS)} appends; one raw write and fdatasync: {each:.2f} ms"
    control = [framed("s1", 1, drafts(part)) for part in PARTS]
    ours.store.close()
    size = sum(map(len, control))
    return [Row("durable turn", ratio, 1.5, f"{detail}; {size:,} bytes a turn")]


def many_sessions(folder: Path, rounds: int) -> Row:
    store = GitStore(folder / "many")
    writers = [Writer(folder / "many", f"s{number}", store) for number in range(50)]
    raw = [Raw(folder / f"many{number}.raw", (sum(PARTS),)) for number in range(50)]

    def ours() -> None:
        futures = [writer.submit() for _ in range(20) for writer in writers]
        for future in futures:
            future.result()

    def baseline() -> None:
        for _ in range(20):
            for each in raw:
                each.turn()

    slower = paired(ours, baseline, rounds)
    store.close()
    detail = "throughput over raw appends, one fdatasync a turn; 50 sessions x 20 turns of 50 rows"
    return Row("50 sessions x 20 turns", 1 / slower, 0.3, detail, floor=True)


def flat_append(folder: Path, turns: int) -> Row:
    """The cost of a turn on a long session over that on a short one, measured in turns."""
    store = GitStore(folder / "flat", commits=False)
    short, long = Writer(folder / "flat", "short", store), Writer(folder / "flat", "long", store)
    for _ in range(10):
        short.turn()
    while (futures := [long.submit() for _ in range(100)]) and futures[-1].result()[-1] < turns * sum(PARTS):
        pass
    ratio = paired(long.turn, short.turn, 101)
    store.close()
    return Row("append: turn 10 -> long", ratio, 1.2, f"after {turns:,} turns over after 10")


def commit_off_path(folder: Path, rounds: int) -> Row:
    """What the caller waits for when it asks for a turn's commit."""
    store = GitStore(folder / "commit")
    writer, raw = Writer(folder / "commit", "s1", store), Raw(folder / "commit.raw")
    asked, turn = [], []
    for _ in range(rounds):
        writer.turn()
        asked.append(seconds(lambda: store.commit("s1", "turn")))
        store.drain_commits(60)
        turn.append(seconds(raw.turn))
    store.close()
    mine, theirs = statistics.median(asked), statistics.median(turn)
    detail = f"{mine * 1e6:.0f} us over a raw turn of {theirs * 1e3:.2f} ms"
    return Row("asking for a commit", mine / theirs, 0.1, detail)
