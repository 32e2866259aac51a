"""`--max`: what a turn of the program may spend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Program

PROGRAM = """
import time
from segue import agentic_function, ask_user

@agentic_function
def works(text: str, runtime=None) -> str:
    while True:
        runtime.exec("more")

@agentic_function
def once(text: str, runtime=None) -> str:
    return runtime.exec("x")

@agentic_function
def asks(text: str, runtime=None) -> str:
    runtime.exec("before")
    answer = ask_user("Which?")
    return runtime.exec(answer) + runtime.exec(answer)
"""


def test_a_turn_that_would_not_end(segue: Program) -> None:
    segue.file("busy.py", PROGRAM)
    options = ("--session", "s", "--model", segue.script(default="again"))
    done = segue("run", "busy:works", "x", *options, "--max", "model_calls=5")
    assert done.returncode == 1
    assert "the turn's budget is nearly spent, or more: 4 of 5 model calls" in done.stderr
    assert "has spent 5 of 5 model calls" in done.stderr
    timed = segue("run", "busy:works", "x", *options, "--max", "seconds=0.5")
    assert (timed.returncode, "of 0.5 s" in timed.stderr) == (124, True)
    refused = segue("run", "busy:works", "x", *options, "--max", "session.model_calls=5")
    assert (refused.returncode, "give the session a larger budget" in refused.stderr) == (1, True)
    assert segue("run", "busy:once", "x", *options, "--max", "model_calls=5").stdout == "again\n"
    turns = segue.json("sessions", "show", "s", "--json")["turns"]
    assert [turn["status"] for turn in turns] == ["failed", "failed", "failed", "completed"]


def test_a_turn_that_goes_on_in_another_process_keeps_its_budget(segue: Program) -> None:
    segue.file("busy.py", PROGRAM)
    model = ("--model", segue.script(default="again"))
    asked = segue("run", "busy:asks", "x", "--session", "s", *model, "--max", "model_calls=2")
    assert asked.returncode == 3
    assert segue("answer", "s", "that one").returncode == 0
    done = segue("resume", "s", *model)
    assert (done.returncode, "has spent 2 of 2 model calls" in done.stderr) == (1, True)


def test_what_is_no_limit_is_a_usage_error(segue: Program) -> None:
    done = segue("run", "desk:plain", "x", "--max", "dollars=5")
    assert (done.returncode, "the limits are seconds" in done.stderr) == (2, True)
