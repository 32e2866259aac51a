"""Values too large for a row: the program gets them whole, also when it runs again; the model gets the same text both
times."""

from __future__ import annotations

from typing import Any

import pytest

import segue
from segue.agents.function import agentic_function
from segue.agents.resume import resume
from segue.fold.conversation import Conversation
from segue.models.scripted import Scripted
from segue.session.db import SessionDB
from segue.session.runtime import Runtime

LARGE = "begin " + "é\0x" * 200_000 + " end"


class Stop(SystemExit):
    """Stands for the end of the process."""


class Program:
    """Stops before its last model call the first time. Counts what it really does."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.values: list[Any] = []
        self.stopped = False

    def run(self, *replies: Any) -> Scripted:
        model = Scripted(list(replies))
        work = self._function()
        if self.stopped:
            resume("s", function=work, runtime=Runtime(model))
        else:
            with pytest.raises(Stop):
                work.run(session_id="s", runtime=Runtime(model))
        return model

    def _function(self) -> Any:
        def read() -> str:
            """Read a large file."""
            self.done.append("tool")
            return LARGE

        def measured() -> dict[str, Any]:
            self.done.append("step")
            return {"text": LARGE}

        @agentic_function
        def inner() -> str:
            self.done.append("inner")
            return LARGE

        @agentic_function
        def work(runtime: Any = None) -> str:
            """Work."""
            self.values += [
                inner(),
                segue.step(measured),
                runtime.exec("long"),
                runtime.exec("read", tools=[read]),
            ]
            if not self.stopped:
                self.stopped = True
                raise Stop
            runtime.exec("last")
            return "done"

        return work


CALLING = {"tool_calls": [{"name": "read", "arguments": {}}]}


def test_a_program_that_runs_again_gets_large_values_whole_and_does_nothing_twice(db: SessionDB) -> None:
    program = Program()
    program.run(LARGE, CALLING, "read it")
    program.run("last")
    assert program.values == [LARGE, {"text": LARGE}, LARGE, "read it"] * 2
    assert program.done == ["inner", "step", "tool"]


def test_the_model_gets_the_same_shortened_result_now_and_when_the_turn_runs_again(db: SessionDB) -> None:
    program = Program()
    live = program.run(LARGE, CALLING, "read it")
    (shown,) = [message["content"] for message in live.requests[-1].messages if message["role"] == "tool"]
    (recorded,) = [row.payload["result"] for row in db.read("s") if row.type == "TOOL_RESULT"]
    assert (shown == recorded, len(shown) < 40_000, "characters left out" in shown) == (True, True, True)
    again = program.run("last")
    straight = Scripted([LARGE, CALLING, "read it", "last"])
    other = Program()
    other.stopped = True
    other._function().run(session_id="other", runtime=Runtime(straight))
    assert again.requests[-1].messages == straight.requests[-1].messages


def test_the_journal_of_large_values_is_small(db: SessionDB) -> None:
    program = Program()
    program.run(LARGE, CALLING, "read it")
    program.run("last")
    small = [len(line) for line in db.store.read_lines("s")]
    assert max(small) < 200_000
    assert len(db.journal("s").view(Conversation).messages()) == 2
