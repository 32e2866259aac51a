"""`segue run`: what it prints, and where."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program

ENVELOPE = ["id", "session_id", "deployment_id", "seq", "type", "payload", "created_at"]


def test_standard_output_carries_the_answer_alone(segue: Program) -> None:
    done = segue("run", "desk:reply", "hello", "--model", segue.script("Good morning."))
    assert (done.returncode, done.stdout) == (0, "Good morning.\n")


def test_standard_error_says_the_session_and_how_to_continue(segue: Program) -> None:
    done = segue(
        "run", "desk:reply", "hello", "--model", segue.script("Good morning."), "--session", "desk_1"
    )
    first, *_, last = done.stderr.splitlines()
    command = (
        "python -m segue run desk:reply --model scripted:answers.json --session desk_1 'your next message'"
    )
    assert (first, last) == ("session: desk_1", f"continue with: SEGUE_HOME={segue.home} {command}")


def test_the_command_that_is_shown_continues_the_session(segue: Program) -> None:
    done = segue("run", "desk:reply", "hello", "--model", segue.script("one", "two"))
    command = done.stderr.splitlines()[-1].removeprefix("continue with: ")
    again = subprocess.run(
        command.replace("python -m", f"{segue.python} -m"),
        shell=True,
        cwd=segue.folder,
        env=segue.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stderr.splitlines()[0] == done.stderr.splitlines()[0]


def test_what_the_function_and_its_children_print_goes_to_standard_error(segue: Program) -> None:
    done = segue("run", "desk:noisy", "quiet")
    assert done.stdout == "quiet\n"
    assert "printed by the function\n" in done.stderr
    assert "printed by a child\n" in done.stderr


def test_an_answer_cannot_act_on_a_terminal_but_reaches_a_pipe_as_it_is(segue: Program) -> None:
    ours, theirs = pty.openpty()
    with segue.start("run", "desk:noisy", "a\x1b[2Jb", stdout=theirs) as running:
        running.communicate(timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1000)
    os.close(ours)
    assert shown == b"a\\x1b[2Jb\r\n"
    assert segue("run", "desk:noisy", "a\x1b[2Jb").stdout == "a\x1b[2Jb\n"


def test_a_value_that_is_no_text_is_printed_as_json(segue: Program) -> None:
    assert segue("run", "desk:facts", "--arg", "n=3").stdout == '{"n":3,"kind":"int"}\n'


def test_an_async_function_is_run_to_its_end(segue: Program) -> None:
    done = segue("run", "desk:reply_async", "hello", "--model", segue.script("Good morning."))
    assert (done.returncode, done.stdout) == (0, "Good morning.\n")


def test_a_function_that_is_not_agentic_runs_too(segue: Program) -> None:
    assert segue("run", "desk:plain", "shout").stdout == "SHOUT\n"


def test_a_file_is_named_by_its_path_as_well(segue: Program) -> None:
    assert segue("run", "desk.py:plain", "shout").stdout == "SHOUT\n"


def test_both_names_of_a_function_record_the_same_call(segue: Program) -> None:
    for target in ("desk:facts", "desk.py:facts"):
        segue("run", target, "--arg", "n=1", "--session", "both")
    nodes = segue.json("sessions", "graph", "both", "--json")["nodes"]
    assert [node["name"] for node in nodes] == ["desk:facts", "desk:facts"]


def test_piped_input_is_appended_to_the_text(segue: Program) -> None:
    done = segue("run", "desk:plain", "look at this:", given="line one\nline two\n")
    assert done.stdout == "LOOK AT THIS:\n\nLINE ONE\nLINE TWO\n"


@pytest.mark.parametrize("text", [[], ["-"]])
def test_piped_input_is_the_text_when_there_is_no_other(segue: Program, text: list[str]) -> None:
    assert segue("run", "desk:plain", *text, given="piped").stdout == "PIPED\n"


def test_input_is_left_alone_when_nothing_takes_a_text(segue: Program) -> None:
    source = segue.file("loop.txt", "first\nsecond\n")
    with source.open("rb") as stream:
        running = segue.start("run", "desk:facts", "--arg", "n=1", stdin=stream)
        running.communicate(timeout=60)
        assert stream.seek(0, 1) == 0


def test_an_idle_pipe_does_not_hold_the_run_up(segue: Program) -> None:
    running = segue.start("run", "desk:plain", "shout", stdin=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.read() == b"SHOUT\n"  # before our end of its input is closed
    _, errors = running.communicate(timeout=60)
    assert b"nothing on standard input for 3 s" in errors


def test_input_that_is_not_text_is_a_usage_error(segue: Program) -> None:
    done = segue("run", "desk:plain", given=b"\xff\xfe")
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input is not UTF-8 text (byte 0)" in done.stderr


def test_json_output_is_one_object(segue: Program) -> None:
    model = segue.script({"text": "Good morning.", "usage": {"input_tokens": 7, "output_tokens": 2}})
    result = segue.json(
        "run", "desk:reply", "hi", "--model", model, "--session", "s", "--output-format", "json"
    )
    turn_id = result.pop("turn_id")
    assert turn_id.startswith("turn_")
    assert result == {
        "session_id": "s",
        "status": "completed",
        "result": "Good morning.",
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }


def test_json_output_of_a_failure_has_the_error(segue: Program) -> None:
    done = segue("run", "desk:fails", "it", "--session", "s", "--output-format", "json")
    result = json.loads(done.stdout)
    del result["turn_id"]
    error = {"type": "ValueError", "message": "cannot do it"}
    assert result == {"session_id": "s", "status": "failed", "result": None, "usage": {}, "error": error}


def test_stream_json_output_is_the_turns_envelopes(segue: Program) -> None:
    done = segue(
        "run", "desk:reply", "hi", "--model", segue.script("Hello."), "--output-format", "stream-json"
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(row) for row in rows] == [ENVELOPE] * len(rows)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    types = [row["type"] for row in rows]
    assert (types[:3], types[-1]) == (
        ["SESSION_CREATED", "INVOCATION_STARTED", "CALL_STARTED"],
        "NO_MORE_ACTIONS",
    )


def test_stream_json_output_of_a_continued_session_begins_at_the_new_turn(segue: Program) -> None:
    segue("run", "desk:facts", "--arg", "n=1", "--session", "s")
    done = segue("run", "desk:facts", "--arg", "n=2", "--session", "s", "--output-format", "stream-json")
    assert json.loads(done.stdout.splitlines()[0])["type"] == "INVOCATION_STARTED"


def test_stream_json_output_is_the_journal_line_by_line(segue: Program) -> None:
    done = segue("run", "desk:facts", "--arg", "n=1", "--session", "s", "--output-format", "stream-json")
    segments = sorted(
        path for path in (segue.home / "sessions" / "s" / "history").rglob("*") if path.is_file()
    )
    kept = [line.rstrip() for path in segments for line in path.read_text(encoding="utf-8").splitlines()]
    assert done.stdout.splitlines() == kept


def test_a_reader_that_leaves_ends_the_output_quietly_and_not_the_turn(segue: Program) -> None:
    stream = ("--output-format", "stream-json")
    with segue.start("run", "desk:facts", "--arg", "n=1", "--session", "s", *stream) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        errors = running.stderr.read()
    assert (running.returncode, b"Traceback" in errors, b"BrokenPipe" in errors) == (0, False, False)
    assert segue.json("sessions", "show", "s", "--json")["turns"][0]["status"] == "completed"
