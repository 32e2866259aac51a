"""`segue sessions`, `segue models`, `segue completion`, and the program as a whole."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program


def test_sessions_are_listed_with_the_latest_first(segue: Program) -> None:
    for session_id in ("one", "two", "one"):
        segue("run", "desk:noisy", f"words of {session_id}", "--session", session_id)
    listed = [
        (item["session_id"], item["title"], item["turns"])
        for item in segue.json("sessions", "list", "--json")
    ]
    assert listed == [("one", "words of one", 2), ("two", "words of two", 1)]


def test_a_session_without_a_turn_is_listed_only_when_all_are(segue: Program) -> None:
    segue("run", "desk:plain", "x", "--session", "looked")
    assert segue.json("sessions", "list", "--json") == []
    assert [item["session_id"] for item in segue.json("sessions", "list", "--all", "--json")] == ["looked"]


def test_the_list_is_a_table_for_people(segue: Program) -> None:
    segue("run", "desk:noisy", "words of a user", "--session", "one")
    header, line = segue("sessions", "list").stdout.splitlines()
    assert header.split() == ["session", "status", "turns", "active", "(UTC)", "about"]
    assert line.split()[:3] == ["one", "completed", "1"]
    assert line.rstrip().endswith("words of a user")


def test_show_has_messages_and_turns(segue: Program) -> None:
    segue("run", "desk:noisy", "hello", "--session", "one")
    shown = segue.json("sessions", "show", "one", "--json")
    (turn,) = shown["turns"]
    assert shown["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hello"},
    ]
    assert (turn["status"], turn["source"], turn["attempt"]) == ("completed", "cli", 1)


def test_show_prints_the_conversation_for_people(segue: Program) -> None:
    segue("run", "desk:noisy", "hello", "--session", "one")
    lines = [line.rstrip() for line in segue("sessions", "show").stdout.splitlines() if line.strip()]
    assert lines[:5] == ["session: one", "user:", "hello", "assistant:", "hello"]


def test_the_graph_is_drawn_with_callers_above_their_calls(segue: Program) -> None:
    segue("run", "desk:outer", "x", "--model", segue.script("a", "b"), "--session", "one")
    assert [line.rstrip() for line in segue("sessions", "graph", "one").stdout.splitlines()] == [
        "session: one",
        '└── function outer(text="x")  completed  -> "ab"',
        '    ├── function inner(text="x")  completed  -> "a"',
        '    │   └── model scripted:answers.json(content="x")  completed  -> "a"',
        '    └── function inner(text="again")  completed  -> "b"',
        '        └── model scripted:answers.json(content="again")  completed  -> "b"',
    ]


@pytest.mark.parametrize("command", ["list", "show", "graph"])
def test_nothing_in_a_session_can_act_on_the_terminal(segue: Program, command: str) -> None:
    segue("run", "desk:noisy", "\x1b]0;title\x07\x1b[2J\u202ereversed", "--session", "one")
    shown = segue("sessions", command).stdout
    assert [char for char in shown if ord(char) < 32 and char != "\n"] == []
    assert "\u202e" not in shown
    assert "1b]0;title" in shown


def test_an_unknown_session_is_exit_2(segue: Program) -> None:
    done = segue("sessions", "show", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("segue: there is no session 'nothing'")


def test_looking_at_sessions_creates_none(segue: Program) -> None:
    segue("sessions", "list")
    segue("sessions", "show", "nothing")
    assert segue.json("sessions", "list", "--all", "--json") == []


def test_models_says_which_and_why(segue: Program) -> None:
    segue.environment["SEGUE_MODEL"] = "scripted:answers.json"
    shown = segue.json("models", "--json")
    assert shown["chosen"] == {"spec": "scripted:answers.json", "why": "SEGUE_MODEL"}
    assert [item["dialect"] for item in shown["available"]] == ["local", "openai", "anthropic", "scripted"]
    assert segue("models").stdout.startswith("scripted:answers.json (SEGUE_MODEL)\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_each_shell_calls_the_program_back(segue: Program, shell: str) -> None:
    done = segue("completion", shell)
    assert done.returncode == 0
    assert f"_SEGUE_COMPLETE={shell}_complete" in done.stdout


def test_session_ids_are_completed(segue: Program) -> None:
    for session_id in ("letters_april", "letters_may", "other"):
        segue("run", "desk:facts", "--arg", "n=1", "--session", session_id)
    words = "segue sessions show lett"
    segue.environment |= {"_SEGUE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
    assert segue().stdout.splitlines() == ["plain,letters_april", "plain,letters_may"]


def test_output_into_a_pipe_that_is_closed_ends_quietly(segue: Program) -> None:
    given = json.dumps([]) + "\n"
    with segue.start("fold", "--batch", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        running.stdin.write(given.encode())
        running.stdin.close()
        errors = running.stderr.read()
    assert (running.returncode, errors) == (0, b"")


def test_a_command_that_is_not_there_is_exit_2(segue: Program) -> None:
    done = segue("sesions")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'sesions'" in done.stderr


def test_the_version_is_printed(segue: Program) -> None:
    assert segue("--version").stdout == "segue, version 0.1.0\n"
