"""What threads and processes do to one session at once, and what must be true of its rows whatever happened.

A share of the work is a number of appends: control rows that set a title, and now and then a whole turn under the
lease, in which two threads race to end the same call, and then the turn.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from segue.events.codec import encode_payload
from segue.events.envelope import Envelope
from segue.events.facts import (
    CallEnded,
    CallStarted,
    Event,
    InvocationStarted,
    NoMoreActions,
    SessionUpdated,
    TurnCancelled,
)
from segue.fold.graph import CallGraph
from segue.fold.summary import Summary
from segue.fold.turns import Turns
from segue.ids import new_id, utc_now
from segue.stores.protocol import Draft, Lease, Store

WAIT = 120.0
"""Seconds that a turn may wait for the lease: who waits longer is starved."""
TURN = 6
"""Appends of a turn."""
EVERY = 40
"""Of so many appends, one turn's are made under the lease."""
LAST = "that is all"
"""Title that ends what reads and watches."""

Say = Callable[[str], None]
"""Told what was acknowledged: a seq and the id of its row."""


def draft(event: Event) -> Draft:
    return Draft(new_id("evt"), "conformance", event.TYPE, encode_payload(event), utc_now())


class Worker:
    """One thread's share of the work."""

    def __init__(self, store: Store, session_id: str, name: str, say: Say) -> None:
        self._store, self._session_id, self._name, self._say = store, session_id, name, say
        self._lease: Lease | None = None

    def run(self, appends: int) -> None:
        done, chance = 0, random.Random(self._name)
        with ThreadPoolExecutor(2) as self._pool:
            while done < appends:
                if appends - done >= TURN and chance.randrange(EVERY - TURN + 1) == 0:
                    self._turn(f"turn-{self._name}-{done}", chance)
                    done += TURN
                else:
                    self._append(SessionUpdated(title=f"{self._name} {done}"))
                    done += 1

    def _turn(self, turn_id: str, chance: random.Random) -> None:
        self._lease = self._store.acquire(self._session_id, holder=self._name, wait=WAIT)
        try:
            started = InvocationStarted(
                invocation_id=new_id("inv"), turn_id=turn_id, reason={}, agent_id="main", source="code"
            )
            node_id = f"node-{turn_id}"
            call = CallStarted(node_id=node_id, kind="function", name="work", arguments={}, turn_id=turn_id)
            self._append(started, call)
            ends = [
                CallEnded(node_id=node_id, status="completed"),
                CallEnded(node_id=node_id, status="failed"),
            ]
            self._race(*chance.sample(ends, 2))
            self._append(SessionUpdated(title=f"{turn_id} ends"))
            self._race(NoMoreActions(turn_id=turn_id), TurnCancelled(turn_id=turn_id))
        finally:
            lease, self._lease = self._lease, None
            self._store.release(lease)

    def _race(self, *events: Event) -> None:
        racers: list[Future[None]] = [self._pool.submit(self._append, event) for event in events]
        for racer in racers:
            racer.result()

    def _append(self, *events: Event) -> None:
        drafts = [draft(event) for event in events]
        seqs = self._store.append(self._session_id, drafts, lease=self._lease)
        self._say("".join(f"{seq} {row.id}\n" for seq, row in zip(seqs, drafts, strict=True)))


def work(store: Store, session_id: str, name: str, threads: int, appends: int, say: Say) -> None:
    """`threads` workers at once, each with that many appends. Raises what the first of them raised."""
    with ThreadPoolExecutor(threads) as pool:
        shares = [
            pool.submit(Worker(store, session_id, f"{name}.{number}", say).run, appends)
            for number in range(threads)
        ]
    for share in shares:
        share.result()


def finish(store: Store, session_id: str) -> None:
    store.append(session_id, [draft(SessionUpdated(title=LAST))])


def watch(store: Store, session_id: str) -> list[Envelope]:
    """All rows, as a watcher sees them, up to the last one."""
    seen: list[Envelope] = []
    for batch in store.watch(session_id):
        seen += batch
        if is_last(batch[-1]):
            break
    return seen


def look(store: Store, session_id: str) -> list[str]:
    """Read again and again until the last row is there. Gives what was wrong with what it saw: nothing."""
    wrong, seen, chance = [], 0, random.Random(0)
    while True:
        after = max(0, seen - chance.choice([0, 3, 50]))
        last = store.last_seq(session_id)
        rows = list(store.read(session_id, after))
        if last < seen:
            wrong.append(f"the last row was {seen}, then {last}")
        if [row.seq for row in rows] != list(range(after + 1, after + 1 + len(rows))):
            wrong.append(f"reading after {after} gave {[row.seq for row in rows]}")
        if after + len(rows) < last:
            wrong.append(f"reading after {after} ended at {after + len(rows)}, though {last} was there")
        seen = after + len(rows)
        if wrong or (rows and is_last(rows[-1])):
            return wrong


def is_last(row: Envelope) -> bool:
    return row.type == SessionUpdated.TYPE and row.payload.get("title") == LAST


def problems(rows: Sequence[Envelope], acknowledged: Iterable[tuple[int, str]]) -> list[str]:
    """What is wrong with a session's rows, in sentences."""
    wrong = []
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        wrong.append("the seqs have a gap, or come twice")
    if repeated := [row_id for row_id, count in Counter(row.id for row in rows).items() if count > 1]:
        wrong.append(f"rows came twice: {repeated}")
    ids = {row.seq: row.id for row in rows}
    if lost := [(seq, row_id) for seq, row_id in acknowledged if ids.get(seq) != row_id]:
        wrong.append(f"acknowledged, but not there: {lost}")
    if mixed := _mixed_turns(rows):
        wrong.append(f"written while another turn had the lease: {mixed}")
    if folded(rows) != naively_folded(rows):
        wrong.append("a status or the title is not the one that was written first or last")
    return wrong


def folded(rows: Iterable[Envelope]) -> dict[str, Any]:
    """Title, turns and calls, as the product shows them."""
    summary, turns, graph = Summary(), Turns(), CallGraph()
    for row in rows:
        for view in (summary, turns, graph):
            view.apply(row)
    return {
        "title": summary.info().title,
        "turns": {turn.turn_id: turn.status for turn in turns.all},
        "calls": {node.id: node.status for node in graph.nodes.values()},
    }


def naively_folded(rows: Iterable[Envelope]) -> dict[str, Any]:
    """The same by the rule itself: the first end of a call or turn wins, and the last title."""
    title, turns, calls = "", {}, {}
    for row in rows:
        payload = row.payload
        match row.type:
            case "SESSION_UPDATED":
                title = payload["title"]
            case "INVOCATION_STARTED":
                turns[payload["turn_id"]] = "running"
            case "CALL_STARTED":
                calls[payload["node_id"]] = "running"
            case "CALL_ENDED" if calls[payload["node_id"]] == "running":
                calls[payload["node_id"]] = payload["status"]
            case "NO_MORE_ACTIONS" | "TURN_CANCELLED" if turns[payload["turn_id"]] == "running":
                turns[payload["turn_id"]] = "completed" if row.type == "NO_MORE_ACTIONS" else "cancelled"
    return {"title": title, "turns": turns, "calls": calls}


def _mixed_turns(rows: Iterable[Envelope]) -> list[int]:
    """Seqs of turn rows that are not of the turn that began last."""
    current, mixed = "", []
    for row in rows:
        if row.type == InvocationStarted.TYPE:
            current = row.payload["turn_id"]
        elif row.type in _TURN_OF and _TURN_OF[row.type](row.payload) != current:
            mixed.append(row.seq)
    return mixed


_TURN_OF: dict[str, Callable[[Any], str]] = {
    "CALL_STARTED": lambda payload: str(payload["turn_id"]),
    "CALL_ENDED": lambda payload: str(payload["node_id"]).removeprefix("node-"),
    "NO_MORE_ACTIONS": lambda payload: str(payload["turn_id"]),
    "TURN_CANCELLED": lambda payload: str(payload["turn_id"]),
}
