"""Standard streams that are closed, full, or left by their reader: the work is done and recorded all the same."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Program

RUN = ("run", "desk:echo", "hello")
"""A run that answers `hello`, and prints nothing itself."""


def through_shell(segue: Program, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = subprocess.list2cmdline([sys.executable, "-m", "segue", *arguments])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} {redirection}"],
        cwd=segue.folder,
        env=segue.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def turns(segue: Program) -> list[Any]:
    return [(listed["status"], listed["turns"]) for listed in segue.json("sessions", "list", "--json")]


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_run_with_closed_or_full_side_streams_completes(segue: Program, streams: str) -> None:
    done = through_shell(segue, streams, *RUN)
    assert (done.returncode, turns(segue)) == (0, [("completed", 1)])
    assert done.stdout == ("" if ">&-" in streams.replace("2>&-", "") else "hello\n")


def test_what_a_function_prints_never_reaches_a_file_of_the_session(segue: Program) -> None:
    """With standard output closed, the next file to be opened would get its number."""
    through_shell(segue, ">&- 2>&-", "run", "desk:noisy", "loud")
    files = [path for path in segue.home.rglob("*") if path.is_file() and ".git" not in path.parts]
    assert [path for path in files if b"printed by the function" in path.read_bytes()] == []


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_an_answer_that_cannot_be_written_is_a_failure_that_says_where_it_is(
    segue: Program, output: str
) -> None:
    done = through_shell(segue, ">/dev/full", *RUN, "--output-format", output)
    assert (done.returncode, turns(segue)) == (1, [("completed", 1)])
    assert "the answer could not be written: No space left on device" in done.stderr
    assert "segue sessions show" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("sessions", "list"), ("sessions", "show"), ("fold",), ("--help",)])
def test_other_output_that_cannot_be_written_is_a_failure(segue: Program, command: tuple[str, ...]) -> None:
    segue(*RUN)
    done = through_shell(segue, "</dev/null >/dev/full", *command)
    assert done.returncode == 1
    assert done.stderr == "segue: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("command", [("sessions", "list"), ("sessions", "show"), ("sessions", "graph")])
def test_a_reader_that_leaves_at_once_is_no_failure(segue: Program, command: tuple[str, ...]) -> None:
    segue(*RUN)
    done = through_shell(segue, "| head -0", *command)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_result_that_cannot_be_recorded_is_shown_as_the_record_has_it(segue: Program) -> None:
    done = segue("run", "desk:nested")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<a value of type list that could not be recorded: ")
