"""What outlives the processes (the record, the effects of tools, the bill), and what must always be true of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from segue.errors import SegueError
from segue.events.envelope import Envelope
from segue.fold.conversation import messages
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft, Lease
from segue.testing.validity import problems, provider_problems
from segue.tools.digest import digest_of

SESSION = "s"


class Died(BaseException):
    """The process is gone: it came as far as this."""


class Violation(AssertionError):
    """Something that must never be."""


class Process:
    """One life of a program's process. After `lives` appends it dies, before or after the last one is written."""

    def __init__(self, lives: int | None, written: bool) -> None:
        self.left, self.written, self.dead = lives, written, False

    def check(self) -> None:
        if self.dead:
            raise Died

    def step(self) -> bool:
        """An append is about to happen; whether it is written still. Raises `Died`."""
        self.check()
        if self.left is None:
            return True
        self.left -= 1
        if self.left > 0:
            return True
        self.dead = True
        return self.written


class ProcessStore:
    """The record as one process reaches it."""

    def __init__(self, store: MemoryStore, process: Process, world: World) -> None:
        self._store, self._process, self._world = store, process, world

    def submit(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Future[list[int]]:
        future: Future[list[int]] = Future()
        try:
            future.set_result(self.append(session_id, drafts, lease=lease, expected_seq=expected_seq))
        except (SegueError, Died) as error:
            future.set_exception(error)
        return future

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> list[int]:
        written = self._process.step()
        if written:
            seqs = self._store.append(session_id, drafts, lease=lease, expected_seq=expected_seq)
        if self._process.dead:
            raise Died
        self._world.acknowledged |= {draft.id for draft in drafts}
        return seqs

    def __getattr__(self, name: str) -> Any:
        self._process.check()
        return getattr(self._store, name)


class World:
    """`random` makes every choice. `facts` say what a person decided, so that what must come of it is known."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = MemoryStore()
        self.process = Process(None, True)
        self.acknowledged: set[str] = set()
        self.effects: Counter[str] = Counter()
        """Tool call id -> how often its effect happened."""
        self.denied: set[str] = set()
        self.retried: Counter[str] = Counter()
        """Tool call id -> how often a person said to do it again."""
        self.asked = 0
        self.trace: list[str] = []
        self.violations: list[str] = []
        """Found where the code under test catches what is raised."""

    def violate(self, what: str) -> None:
        self.violations.append(what)
        raise Violation(what)

    def rows(self) -> list[Envelope]:
        return list(self.store.read(SESSION)) if self.store.exists(SESSION) else []

    def bury(self) -> None:
        """The process is gone, and with it its lease."""
        if self.store.exists(SESSION):
            session = self.store._sessions[SESSION]
            session.token, session.holder = "", None

    # --- what must be true at once ---

    def effect(
        self, name: str, gated: bool, idempotent: bool, arguments: dict[str, Any], call_id: str
    ) -> None:
        """A tool takes effect now."""
        self.process.check()
        self.effects[call_id] += 1
        self.trace.append(f"effect {name} {call_id}")
        mine = [
            row
            for row in self.rows()
            if row.payload.get("tool_call_id", row.payload.get("call_id")) == call_id
        ]
        types = [row.type for row in mine]
        if "TOOL_STARTED" not in types:
            self.violate(f"{call_id} took effect before its start was recorded")
        if "TOOL_RESULT" in types:
            self.violate(f"{call_id} was done again after its result was recorded")
        if call_id in self.denied:
            self.violate(f"{call_id} was denied, and ran")
        if gated and not self._granted(mine, name, arguments):
            self.violate(f"{call_id} ran without a grant of its own for {arguments}")
        if self.effects[call_id] > 1 + self.retried[call_id] and not idempotent:
            self.violate(f"{call_id} took effect {self.effects[call_id]} times")

    def _granted(self, rows: list[Envelope], name: str, arguments: dict[str, Any]) -> bool:
        """Whether the first decision since the call was asked for last admits exactly this."""
        decision: Envelope | None = None
        for row in rows:
            if row.type == "TOOL_APPROVAL_REQUIRED":
                decision = None
            elif row.type.startswith("TOOL_APPROVAL_"):
                decision = decision or row
        if decision is None or decision.type != "TOOL_APPROVAL_GRANTED":
            return False
        granted = decision.payload.get("arguments", arguments)
        expired = decision.payload.get("expires_at", "9") < "2026"
        return not expired and granted == arguments and decision.payload["digest"] == digest_of(name, granted)

    def model_asked(self, request_messages: list[dict[str, Any]]) -> None:
        """A model is asked now: it costs something."""
        self.process.check()
        self.asked += 1
        wrong = provider_problems(request_messages)
        if wrong:
            self.violate(f"a provider would refuse the request: {wrong}")
        users = [message["content"] for message in request_messages if message["role"] == "user"]
        tools = [message["tool_call_id"] for message in request_messages if message["role"] == "tool"]
        key = json.dumps([users[-1], tools])
        if key in self._paid():
            self.violate(f"this was answered already, and would be paid again: {key}")

    def _paid(self) -> set[str]:
        """Of each finished model call, what it was asked last and the tool results it had."""
        started: dict[str, dict[str, Any]] = {}
        tools: dict[str, list[str]] = {}
        done: set[str] = set()
        for row in self.rows():
            payload = row.payload
            if row.type == "CALL_STARTED" and payload["kind"] == "model":
                started[payload["node_id"]] = payload["arguments"]
            elif row.type == "TOOL_CALL":
                tools.setdefault(payload["called_by"], []).append(payload["tool_call_id"])
            elif (
                row.type == "CALL_ENDED"
                and payload["node_id"] in started
                and payload["status"] == "completed"
            ):
                done.add(payload["node_id"])
        return {json.dumps(_question(node, started, tools)) for node in done}

    # --- what must be true between lives ---

    def check_record(self) -> None:
        if self.violations:
            raise Violation(self.violations[0])
        rows = self.rows()
        seqs = [row.seq for row in rows]
        if seqs != list(range(1, len(rows) + 1)):
            raise Violation(f"seqs are not gapless: {seqs}")
        lost = self.acknowledged - {row.id for row in rows}
        if lost:
            raise Violation(f"acknowledged rows are lost: {lost}")
        wrong = problems(messages(rows))
        if wrong:
            raise Violation(f"the history is not valid: {wrong}")


def _question(node: str, started: dict[str, dict[str, Any]], tools: dict[str, list[str]]) -> list[Any]:
    """`[what was asked, ids of the tool results]` of a model call: those of the replies it continues."""
    arguments = started[node]
    if "continues" not in arguments:
        return [arguments["content"], []]
    first = arguments["continues"]
    before = [other for other in started if other == first or started[other].get("continues") == first]
    earlier = before[: before.index(node)]
    return [started[first]["content"], [call for other in earlier for call in tools.get(other, [])]]
