"""Approve and deny at once, from several processes, on one git store: one decision counts, and all are told which."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from segue import events
from segue.session.db import SessionDB
from segue.tools.digest import digest_of

PROGRAM = Path(__file__).parents[2] / "support" / "deciding.py"
PROCESSES = 8
ROUNDS = 200
MOST = 100
"""Seconds that one answer may take."""


class Decider:
    def __init__(self, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "s", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Decider:
        return self

    def __exit__(self, *ended: object) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, call: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{call}\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def deciders(db: SessionDB) -> Iterator[list[Decider]]:
    db.create_session("s")
    with ExitStack() as stack:
        started = [stack.enter_context(Decider(number)) for number in range(PROCESSES)]
        assert [decider.said() for decider in started] == ["ready"] * PROCESSES
        yield started


def test_eight_processes_race_for_each_of_200_calls(db: SessionDB, deciders: list[Decider]) -> None:
    journal = db.journal("s")
    lease = journal.acquire(holder="test")
    started = events.InvocationStarted(
        invocation_id="i", turn_id="t", reason={"kind": "user_message", "input": "q"}
    )
    journal.append(started, lease=lease)
    won: Counter[str] = Counter()
    with ThreadPoolExecutor(PROCESSES) as threads:
        for number in range(ROUNDS):
            call, asked = f"call_{number}", {"eur": number}
            required = events.ToolApprovalRequired(
                tool_call_id=call, name="pay", arguments=asked, digest=digest_of("pay", asked)
            )
            journal.append(required, lease=lease)
            for decider in deciders[number % PROCESSES :] + deciders[: number % PROCESSES]:
                decider.tell(call)
            said = list(threads.map(Decider.said, deciders, timeout=MOST))
            [winner] = [line for line in said if line.startswith("won ")]
            decision = winner.removeprefix("won ")
            assert Counter(said) == {f"won {decision}": 1, f"told {decision}": PROCESSES - 1}
            won[decision] += 1
    journal.release(lease)
    assert len(won) == 2, "it was a race, not an order"
    rows = [row for row in db.read("s") if row.type in ("TOOL_APPROVAL_GRANTED", "TOOL_APPROVAL_DENIED")]
    assert [row.payload["tool_call_id"] for row in rows] == [f"call_{number}" for number in range(ROUNDS)]
    assert Counter(row.type for row in rows) == Counter(
        TOOL_APPROVAL_GRANTED=won["granted"], TOOL_APPROVAL_DENIED=won["denied"]
    )
