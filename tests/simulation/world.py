"""What outlives the processes (the record, the effects of tools, the bill), and what must always be true of it."""

from __future__ import annotations

import asyncio
import contextvars
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from oracle import violations

from segue.errors import SegueError
from segue.events.envelope import Envelope
from segue.fold.conversation import messages
from segue.fold.provider import provider_messages
from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft, Lease, Store
from segue.testing.validity import problems, provider_problems
from segue.tools.digest import digest_of

SESSION = "s"


class Died(BaseException):
    """The process is gone: it came as far as this."""


class Violation(AssertionError):
    """Something that must never be."""


class Process:
    """One life of a program's process. After `lives` appends it dies, before or after the last one is written; after
    `keeps` of them its lease goes to somebody else, as if it had been away for too long."""

    def __init__(
        self, store: Store, lives: int | None = None, *, written: bool = True, keeps: int | None = None
    ) -> None:
        self.store, self.left, self.written, self.keeps = store, lives, written, keeps
        self.dead = self.is_late = False
        self.leases: list[Lease] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.taken_over: Callable[[], None] = lambda: None
        """Called when it has lost its lease: somebody else takes over."""

    def check(self) -> None:
        if self.dead:
            raise Died

    def step(self) -> bool:
        """An append is about to happen; whether it is written still. Raises `Died`."""
        self.check()
        if self.keeps is not None and self.leases:
            self.keeps -= 1
            if self.keeps <= 0:
                self._lose_lease()
        if self.left is None:
            return True
        self.left -= 1
        if self.left > 0:
            return True
        self.dead = True
        return self.written

    def _lose_lease(self) -> None:
        self.keeps, self.is_late = None, True
        self.free()
        self.taken_over()

    def free(self) -> None:
        """Its leases, as the system frees those of a process that is gone."""
        leases, self.leases = self.leases, []
        for lease in leases:
            self.store.release(lease)


current: contextvars.ContextVar[Process] = contextvars.ContextVar("simulated_process")
"""The process that the code runs in."""


class ProcessStore:
    """The record as one process reaches it. Every append is over when `submit` returns, so that nothing depends on
    threads."""

    def __init__(self, process: Process, world: World) -> None:
        self._store, self._process, self._world = process.store, process, world

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
            self._process.free()
            raise Died
        self._world.acknowledged |= {draft.id for draft in drafts}
        return seqs

    def acquire(self, session_id: str, *, holder: str, wait: float = 0.0) -> Lease:
        self._process.check()
        lease = self._store.acquire(session_id, holder=holder)
        self._process.leases.append(lease)
        self._process.is_late = False
        return lease

    def release(self, lease: Lease) -> None:
        self._process.check()
        if lease in self._process.leases:
            self._process.leases.remove(lease)
            self._store.release(lease)

    def __getattr__(self, name: str) -> Any:
        self._process.check()
        return getattr(self._store, name)


class World:
    """`random` makes every choice. `facts` say what a person decided, so that what must come of it is known."""

    def __init__(self, seed: int, folder: Path | None = None) -> None:
        self.random = random.Random(seed)
        self._folder, self._memory = folder, MemoryStore()
        self.store = self.open_store()
        """As everybody but the processes under test reaches it."""
        self._rows: list[Envelope] = []
        self.acknowledged: set[str] = set()
        self.effects: Counter[str] = Counter()
        """Tool call id -> how often its effect happened."""
        self.denied: set[str] = set()
        self.retried: Counter[str] = Counter()
        """Tool call id -> how often a person said to do it again."""
        self.failed: set[str] = set()
        """What a model has failed at once."""
        self.asked = 0
        self.trace: list[str] = []
        self.violations: list[str] = []
        """Found where the code under test catches what is raised."""

    def open_store(self) -> Store:
        """The record, as a new process opens it."""
        return self._memory if self._folder is None else GitStore(self._folder, commits=False)

    @property
    def can_lose_leases(self) -> bool:
        """A lock of the system is lost by nobody who is alive."""
        return self._folder is None

    def violate(self, what: str) -> None:
        self.violations.append(what)
        raise Violation(what)

    def rows(self) -> list[Envelope]:
        """All of the record, each read once."""
        if self.store.exists(SESSION):
            self._rows += self.store.read(SESSION, len(self._rows))
        return self._rows

    # --- what must be true at once ---

    def effect(
        self, name: str, gated: bool, idempotent: bool, arguments: dict[str, Any], call_id: str
    ) -> None:
        """A tool takes effect now. One of a process that has lost its lease is late: all that can be asked of it is
        that it had started."""
        process = current.get()
        process.check()
        self.effects[call_id] += 1
        self.trace.append(f"effect {name} {call_id}{' (late)' if process.is_late else ''}")
        mine = [
            row
            for row in self.rows()
            if row.payload.get("tool_call_id", row.payload.get("call_id")) == call_id
        ]
        types = [row.type for row in mine]
        if "TOOL_STARTED" not in types:
            self.violate(f"{call_id} took effect before its start was recorded")
        if "TOOL_RESULT" in types and not process.is_late:
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
        current.get().check()
        self.asked += 1
        wrong = [*provider_problems(request_messages), *violations(request_messages)]
        if wrong:
            self.violate(f"a provider would refuse the request: {wrong}")
        asked = asked_at(request_messages)
        tools = [message["tool_call_id"] for message in request_messages[asked:] if message["role"] == "tool"]
        key = json.dumps([request_messages[asked]["content"], tools])
        if key in self._paid():
            self.violate(f"this was answered already, and would be paid again: {key}")

    def _paid(self) -> set[str]:
        """Of each finished model call, what it was asked last and the tool results it had."""
        started: dict[str, dict[str, Any]] = {}
        tools: dict[str, list[str]] = {}
        done: set[str] = set()
        said = ""
        for row in self.rows():
            payload = row.payload
            if row.type == "INVOCATION_STARTED" and payload["reason"]["kind"] == "user_message":
                said, tools[""] = payload["reason"]["input"], []
            elif row.type == "CALL_STARTED" and payload["kind"] == "model":
                asked = payload["arguments"] or {"said": [said, list(tools.get("", []))]}
                started[payload["node_id"]] = asked
            elif row.type == "TOOL_CALL":
                tools.setdefault(payload.get("called_by", ""), []).append(payload["tool_call_id"])
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
        history = messages(rows)
        wrong = problems(history) or violations(provider_messages(_answered(history)))
        if wrong:
            raise Violation(f"the history is not valid: {wrong}")


def asked_at(request: list[dict[str, Any]]) -> int:
    """Where in a request somebody says what is to be done, besides that a reply which was cut off is to go on."""
    return max(
        at
        for at, message in enumerate(request)
        if message["role"] == "user"
        and not str(message["content"]).startswith("Your previous message was cut off")
    )


def _answered(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without a last message whose calls wait for their results: nothing is sent before they are there."""
    at = next((at for at, message in enumerate(history[::-1], 1) if message["role"] != "tool"), 0)
    if not at:
        return history
    calls = history[-at].get("tool_calls") or ()
    return history if len(calls) == at - 1 else history[:-at]


def _question(node: str, started: dict[str, dict[str, Any]], tools: dict[str, list[str]]) -> list[Any]:
    """`[what was asked, ids of the tool results]` of a model call: those of the replies it continues."""
    arguments = started[node]
    if "said" in arguments:
        return list(arguments["said"])
    if "continues" not in arguments:
        return [arguments["content"], []]
    first = arguments["continues"]
    before = [other for other in started if other == first or started[other].get("continues") == first]
    earlier = before[: before.index(node)]
    return [started[first]["content"], [call for other in earlier for call in tools.get(other, [])]]
