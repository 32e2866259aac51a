"""`segue sessions list` with filters, `search` and `reindex`, for people and programs."""

from __future__ import annotations

import os
import pty
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program


@pytest.fixture
def spoken(segue: Program) -> Program:
    """Three sessions: two about the roof, one that failed."""
    for session_id, function, words in (
        ("one", "noisy", "The roof leaks near the chimney"),
        ("two", "noisy", "屋根が漏れています and the roof"),
        ("three", "fails", "Something else"),
    ):
        segue("run", f"desk:{function}", words, "--session", session_id)
    return segue


def listed(segue: Program, *options: str) -> list[str]:
    return [item["session_id"] for item in segue.json("sessions", "list", "--json", *options)]


def test_the_list_takes_filters(spoken: Program) -> None:
    seen = [
        listed(spoken, *options)
        for options in (
            ["--status", "failed"],
            ["--since", "1h"],
            ["--since", "2999-01-01"],
            ["--limit", "1"],
            ["--pinned"],
            ["--archived"],
            ["--agent", "main", "--limit", "2"],
            ["--tag", "roof"],
        )
    ]
    assert seen == [["three"], ["three", "two", "one"], [], ["three"], [], [], ["three", "two"], []]


def test_more_sessions_than_shown_are_told(spoken: Program) -> None:
    done = spoken("sessions", "list", "--limit", "2")
    assert (len(done.stdout.splitlines()), done.stderr) == (
        3,
        "there are more than these 2: --limit shows more\n",
    )


@pytest.mark.parametrize(("option", "value"), [("--since", "soon"), ("--status", "nice"), ("--limit", "0")])
def test_a_bad_filter_is_a_usage_error(segue: Program, option: str, value: str) -> None:
    done = segue("sessions", "list", option, value)
    assert (done.returncode, option in done.stderr, done.stdout) == (2, True, "")


def test_a_search_shows_where_it_was_said(spoken: Program) -> None:
    done = spoken("sessions", "search", "roof", "chimney")
    head, line = done.stdout.splitlines()
    assert (head.split()[0], head.endswith(" places  The roof leaks near the chimney")) == ("one", True)
    assert line.endswith(": The roof leaks near the chimney")
    assert done.stderr == "`segue sessions show one` shows the first one\n"


def test_a_search_in_json_has_each_session_with_a_hit(spoken: Program) -> None:
    [found] = spoken.json("sessions", "search", "屋根", "--json")
    assert (found["session_id"], found["status"], found["count"] >= 2) == ("two", "completed", True)
    assert (found["hit"]["snippet"], found["hit"]["marks"]) == ("屋根が漏れています and the roof", [[0, 2]])


def test_a_search_that_finds_nothing_says_so_and_is_no_failure(spoken: Program) -> None:
    done = spoken("sessions", "search", "cellar")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no session says that\n")
    assert spoken.json("sessions", "search", "cellar", "--json") == []


def test_phrases_and_minus_words_go_through_the_shell(spoken: Program) -> None:
    found = [
        [item["session_id"] for item in spoken.json("sessions", "search", query, "--json")]
        for query in ('"leaks near"', '"near leaks"', "roof -chimney", "chim*")
    ]
    assert found == [["one"], [], ["two"], ["one"]]


@pytest.mark.parametrize("query", ["", "  ", '"', "***"])
def test_a_search_for_nothing_is_a_usage_error_that_says_what_to_do(segue: Program, query: str) -> None:
    done = segue("sessions", "search", query)
    assert (done.returncode, done.stderr) == (
        2,
        'segue: nothing to search for: give at least one word, or a "phrase", without a minus\n',
    )


def test_nothing_in_a_hit_acts_on_the_terminal(segue: Program) -> None:
    segue("run", "desk:noisy", "evil \x1b[2J\u202e roof", "--session", "one")
    shown = segue("sessions", "search", "roof").stdout
    assert ("\x1b" in shown, "\u202e" in shown, "\\u202e" in shown) == (False, False, True)


def test_on_a_terminal_what_was_found_stands_out_within_its_width(spoken: Program) -> None:
    spoken("run", "desk:noisy", "long words " * 30 + "the attic " + "more words " * 30, "--session", "four")
    screen = on_terminal(spoken, "sessions", "search", "attic")
    assert "\x1b[1;33mattic" in screen
    assert max(len(line) for line in plain_lines(screen)) <= 80


def test_reindexing_tells_how_many_sessions_there_are(spoken: Program) -> None:
    spoken("sessions", "list")
    before = (spoken.home / "index.sqlite").stat().st_mtime_ns
    done = spoken("sessions", "reindex")
    after = (spoken.home / "index.sqlite").stat().st_mtime_ns
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "3 sessions in the index\n")
    assert (before != after, listed(spoken)) == (True, ["three", "two", "one"])


def on_terminal(segue: Program, *arguments: str) -> str:
    """What the program writes on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with segue.start(*arguments, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        screen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the program closed its end
                break
            screen += part
        process.wait()
    os.close(ours)
    return screen.decode()


def plain_lines(screen: str) -> list[str]:
    pieces = screen.replace("\r", "").split("\x1b[")
    return "".join([pieces[0], *(piece.partition("m")[2] for piece in pieces[1:])]).split("\n")
