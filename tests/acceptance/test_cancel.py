"""`segue cancel`: a turn of another process ends, whatever it is at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program

PROGRAM = """
import asyncio, time
from segue import agentic_function, ask_user

@agentic_function
async def waits(text: str) -> str:
    await asyncio.Event().wait()

@agentic_function
def works(text: str, runtime=None) -> str:
    while True:
        runtime.exec("more")
        time.sleep(0.05)

@agentic_function
def asks(text: str) -> str:
    return ask_user("Which?")
"""


def until_running(segue: Program, session_id: str) -> None:
    while segue("sessions", "list", "--json", "--status", "running").stdout.count(session_id) == 0:
        time.sleep(0.05)


@pytest.mark.parametrize("function", ["waits", "works"])
def test_a_turn_that_runs_in_another_terminal(segue: Program, function: str) -> None:
    segue.file("busy.py", PROGRAM)
    options = ("--session", "s", "--model", segue.script(default="again"))
    running = segue.start("run", f"busy:{function}", "x", *options)
    until_running(segue, '"s"')
    done = segue("cancel", "s", "--message", "enough")
    assert (done.returncode, done.stderr.split(": ")[-1]) == (0, "cancelled\n")
    running.communicate(timeout=20)
    assert running.returncode == 130
    [turn] = segue.json("sessions", "show", "s", "--json")["turns"]
    assert turn["status"] == "cancelled"
    assert segue("run", "desk:plain", "x", "--session", "s").stdout == "X\n"


def test_a_turn_that_waits_and_one_that_is_over(segue: Program) -> None:
    segue.file("busy.py", PROGRAM)
    assert segue("run", "busy:asks", "x", "--session", "s").returncode == 3
    for _ in range(2):
        assert segue("cancel", "s").returncode == 0
    assert segue.json("approvals", "--json") == []
    assert segue("resume", "s").returncode != 0


def test_what_is_not_there(segue: Program) -> None:
    segue("run", "desk:plain", "x", "--session", "s")
    assert segue("cancel", "t").returncode == 2
    done = segue("cancel", "s", "turn_x")
    assert (done.returncode, "no turn turn_x" in done.stderr) == (1, True)
