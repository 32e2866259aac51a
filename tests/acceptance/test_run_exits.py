"""`segue run`: every exit code, and what the record says afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program


def turn_status(segue: Program, session_id: str) -> str:
    status: str = segue.json("sessions", "show", session_id, "--json")["turns"][-1]["status"]
    return status


def started(segue: Program, function: str, *options: str) -> subprocess.Popen[bytes]:
    """A run of a function that says when it is inside, and is."""
    ready = segue.folder / "ready"
    running = segue.start("run", f"desk:{function}", str(ready), "--session", "s", *options)
    wait_for(ready)
    return running


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def test_a_failing_function_is_exit_1_with_a_traceback_of_its_own_code(segue: Program) -> None:
    done = segue("run", "desk:fails", "it", "--session", "s")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'desk.py", line' in done.stderr
    assert "ValueError: cannot do it" in done.stderr
    assert os.sep + os.path.join("segue", "agents") not in done.stderr
    assert turn_status(segue, "s") == "failed"


def test_verbose_shows_the_whole_traceback(segue: Program) -> None:
    done = segue("-v", "run", "desk:fails", "it")
    assert done.returncode == 1
    assert os.path.join("segue", "agents") in done.stderr


def test_no_model_is_exit_1_and_says_what_to_install(segue: Program) -> None:
    done = segue("run", "desk:reply", "hi", "--model", "local:missing")
    assert (done.returncode, done.stdout) == (1, "")
    assert "segue models add local" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere:f"], "segue: there is no module 'nowhere' here or installed"),
        (["run", "nowhere.py:f"], "segue: there is no file nowhere.py"),
        (["run", "desk:replay"], "segue: desk has no replay: did you mean reply?"),
        (["run", "desk"], "segue: 'desk': write it as module:function or path/file.py:function"),
        (
            ["run", "desk:facts", "hello", "--arg", "n=1"],
            "segue: the function has no str parameter left for TEXT",
        ),
        (["run", "desk:facts"], "segue: missing: n (int). Give --arg n=..."),
        (["run", "desk:facts", "--arg", "n=many"], 'segue: --arg n: expected an integer, got "many"'),
        (["run", "desk:facts", "--arg", "m=1"], "segue: --arg m: no such parameter: there is n"),
        (["run", "desk:reply", "hi", "--model", "openia:gpt-5"], "segue: no provider 'openia'"),
        (["run"], "Usage: segue run"),
        (["run", "desk:plain", "x", "--nonsense"], "Usage: segue run"),
    ],
)
def test_usage_errors_are_exit_2_and_leave_no_session(
    segue: Program, arguments: list[str], message: str
) -> None:
    done = segue(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert segue.json("sessions", "list", "--all", "--json") == []


def test_a_module_that_fails_while_it_is_imported_is_exit_1(segue: Program) -> None:
    segue.file("broken.py", "import json\nraise RuntimeError('at import')\n")
    done = segue("run", "broken:f")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'broken.py", line 2' in done.stderr
    assert "RuntimeError: at import" in done.stderr


def test_a_module_that_a_module_needs_and_lacks_is_its_own_error(segue: Program) -> None:
    segue.file("needy.py", "import not_there_at_all\n")
    done = segue("run", "needy:f")
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'not_there_at_all'" in done.stderr


def test_an_open_question_is_exit_3_and_is_shown(segue: Program) -> None:
    done = segue("run", "desk:asks", "paint", "--session", "s")
    assert (done.returncode, done.stdout) == (3, "")
    assert "waits for an answer: Which colour?" in done.stderr
    assert turn_status(segue, "s") == "suspended"


def test_a_busy_session_is_exit_5_and_names_the_holder(segue: Program) -> None:
    holder = started(segue, "sleeps")
    done = segue("run", "desk:facts", "--arg", "n=1", "--session", "s")
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=30)
    assert (done.returncode, done.stdout) == (5, "")
    assert str(holder.pid) in done.stderr


@pytest.mark.parametrize("function", ["sleeps", "sleeps_async"])
@pytest.mark.parametrize(
    ("number", "code", "status"),
    [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "interrupted")],
)
def test_a_signal_ends_the_turn_in_its_own_way(
    segue: Program, function: str, number: signal.Signals, code: int, status: str
) -> None:
    running = started(segue, function)
    running.send_signal(number)
    output, errors = running.communicate(timeout=30)
    assert (running.returncode, output) == (code, b"")
    assert b"Traceback" not in errors
    assert turn_status(segue, "s") == status


@pytest.mark.parametrize("function", ["sleeps", "sleeps_async"])
def test_the_time_limit_is_exit_124_and_interrupts_the_turn(segue: Program, function: str) -> None:
    done = segue("run", f"desk:{function}", "ready", "--session", "s", "--timeout", "1")
    assert (done.returncode, done.stdout) == (124, "")
    assert turn_status(segue, "s") == "interrupted"


def test_a_killed_run_can_be_continued(segue: Program) -> None:
    running = started(segue, "sleeps")
    running.kill()
    running.communicate(timeout=30)
    done = segue("run", "desk:facts", "--arg", "n=1", "--session", "s")
    turns = segue.json("sessions", "show", "s", "--json")["turns"]
    assert (done.returncode, [turn["status"] for turn in turns]) == (0, ["interrupted", "completed"])
