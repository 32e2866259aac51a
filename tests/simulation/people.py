"""Those who decide, each in a process of their own: while the program runs, or when it waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from world import SESSION, Violation, World

from segue.errors import AlreadyDecided, NotWaiting, SessionBusy
from segue.events.facts import SessionUpdated, ToolApprovalGranted
from segue.fold.turns import Turn
from segue.fold.waits import Wait
from segue.journal import Journal, open_journal
from segue.session import decisions
from segue.stores.protocol import Draft, Lease, Store


class _RacedStore:
    """Of somebody who decides: somebody else is faster by a hair, between the look and the append."""

    def __init__(self, store: Store, rival: Callable[[], None]) -> None:
        self._store, self._rival = store, rival

    def submit(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Any:
        rival, self._rival = self._rival, lambda: None
        rival()
        return self._store.submit(session_id, drafts, lease=lease, expected_seq=expected_seq)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class People:
    def __init__(self, world: World) -> None:
        self._world = world

    def open_waits(self) -> list[Wait]:
        return decisions.open_waits(self._journal())

    def decided(self, turn: Turn) -> bool:
        """Whether somebody decided on something since that turn suspended: then it can go on."""
        kinds = ("TOOL_APPROVAL_GRANTED", "TOOL_APPROVAL_DENIED", "QUESTION_ANSWERED", "CALL_RESOLVED")
        return any(row.type in kinds for row in self._world.rows()[turn.started_seq :])

    def decide(self, waits: list[Wait]) -> None:
        """Some of what waits, in any order; all of it sooner or later."""
        chance = self._world.random
        for wait in chance.sample(waits, chance.randint(1, len(waits))):
            if chance.random() < 0.2:
                self._race(wait)
            else:
                self._decide(self._journal(), wait)
            if chance.random() < 0.2:
                self._decide_again(self._journal(), wait)

    async def meanwhile(self) -> None:
        """Somebody looks in while the program runs: renames the session, tries to write to it, decides."""
        chance = self._world.random
        while True:
            await asyncio.sleep(chance.random() * 5)
            if not self._world.store.exists(SESSION):
                continue
            journal = self._journal()
            match chance.choice(("rename", "write", "decide", "decide")):
                case "rename":
                    journal.append(SessionUpdated(title="another name"))
                case "write":
                    self._try_to_write(journal)
                case "decide":
                    for wait in self.open_waits():
                        self._decide(journal, wait)

    def _try_to_write(self, journal: Journal) -> None:
        if self._world.store.holder(SESSION) is None:
            return
        try:
            journal.release(journal.acquire(holder="somebody else"))
        except SessionBusy:
            return
        raise Violation("two hold the lease")

    def _race(self, wait: Wait) -> None:
        """Two decide at the same moment: the faster one counts, the other is told."""
        raced: Any = _RacedStore(self._world.store, lambda: self._decide(self._journal(), wait))
        self._decide_again(Journal(raced, SESSION), wait)

    # --- one decision ---

    def _journal(self) -> Journal:
        return open_journal(self._world.store, SESSION)

    def _decide(self, journal: Journal, wait: Wait) -> None:
        chance = self._world.random
        self._world.trace.append(f"decides {wait.kind} {wait.id}")
        if wait.kind == "question":
            decisions.answer(journal, wait.id, f"answer to {wait.name}")
        elif wait.kind == "unknown_outcome":
            action = chance.choice(("retry", "skip", "result"))
            self._world.retried[wait.id] += action == "retry"
            decisions.resolve(journal, wait.id, action, result=f"resolved {wait.id}")  # type: ignore[arg-type]
        else:
            self._approve(journal, wait)

    def _approve(self, journal: Journal, wait: Wait) -> None:
        match self._world.random.choice(("yes", "yes", "yes", "no", "edit", "late", "forged")):
            case "yes":
                decisions.approve(journal, wait.id)
            case "no":
                self._world.denied.add(wait.id)
                decisions.deny(journal, wait.id, reason="No.")
            case "edit":
                decisions.approve(journal, wait.id, arguments={"label": f"{wait.arguments['label']}e"})
            case "late":
                decisions.approve(journal, wait.id, expires_at="2020-01-01T00:00:00.000000Z")
            case "forged":
                journal.append(ToolApprovalGranted(tool_call_id=wait.id, digest="0" * 64))

    def _decide_again(self, journal: Journal, wait: Wait) -> None:
        """The second one on a wait is told so, and changes nothing."""
        try:
            if wait.kind == "question":
                decisions.answer(journal, wait.id, "another answer")
            elif wait.kind == "approval":
                decisions.deny(journal, wait.id)
            else:
                decisions.resolve(journal, wait.id, "skip")
        except (AlreadyDecided, NotWaiting):
            return
        raise Violation(f"a second decision on {wait.id} was taken")
