from __future__ import annotations

from typing import Any

import pytest

from segue.events import EVENT_TYPES
from segue.fold import SessionInfo, Summary

CREATED = ("SESSION_CREATED", {"agent_id": "main", "source": "cli", "cwd": "/src", "tags": ["a"]})


def info_of(rows: list[Any]) -> SessionInfo:
    summary = Summary()
    for row in rows:
        summary.apply(row)
    return summary.info()


def said(words: Any) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": "t", "reason": {"kind": "user_message", "input": words}})


def updated(**fields: Any) -> tuple[str, Any]:
    return ("SESSION_UPDATED", fields)


def test_a_session_says_what_its_rows_say(journal: Any) -> None:
    rows = journal(
        CREATED, said("Hello"), ("NO_MORE_ACTIONS", {}), updated(pinned=True, archived=True, tags=["b"])
    )
    assert info_of(rows) == SessionInfo(
        session_id="ses",
        title="Hello",
        status="completed",
        turns=1,
        events=4,
        agent_id="main",
        source="cli",
        cwd="/src",
        created_at="2026-01-01T00:00:01Z",
        active_at="2026-01-01T00:00:03Z",
        archived=True,
        pinned=True,
        tags=["b"],
    )


def test_a_session_without_a_turn_is_idle(journal: Any) -> None:
    assert (info_of(journal(CREATED)).status, info_of(journal(CREATED)).title) == ("idle", "")


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([said("first\n  words"), said("second")], "first words"),
        ([said("x" * 200)], "x" * 80),
        ([said([{"type": "text", "text": "look"}, {"type": "image"}])], "look"),
        ([said({"a": 1})], '{"a": 1}'),
        ([said(""), said("later")], "later"),
        ([said("words"), updated(title="A\nname")], "A name"),
        ([updated(title="A name"), updated(pinned=True), said("words")], "A name"),
    ],
)
def test_the_title_is_a_given_one_or_the_first_words(journal: Any, rows: list[Any], title: str) -> None:
    assert info_of(journal(CREATED, *rows)).title == title


def test_a_title_given_at_creation_stands_until_it_is_changed(journal: Any) -> None:
    rows = journal(("SESSION_CREATED", {"title": "Born"}), said("words"), updated(title="Renamed"))
    assert [info_of(rows[:length]).title for length in (1, 2, 3)] == ["Born", "Born", "Renamed"]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_payload_of_any_type_breaks_the_summary(journal: Any, kind: str) -> None:
    hostile: list[Any] = [None, 5, "text", [], {}, [None], {"a": []}, True]
    keys = ["title", "archived", "pinned", "tags", "agent_id", "reason", "turn_id"]
    payloads = [*hostile, *[{key: value} for key in keys for value in hostile]]
    info = info_of(journal(CREATED, *[(kind, payload) for payload in payloads]))
    assert info.events == 1 + len(payloads)


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_a_summary_that_goes_on_from_its_state_says_what_the_whole_one_says(journal: Any, kind: str) -> None:
    later = [(kind, {"turn_id": turn_id, "code": "interrupted"}) for turn_id in ("t", "u", "other", "")]
    rows = journal(
        CREATED, said("one"), ("TURN_SUSPENDED", {}), started("u"), ("ERROR", {}), *later, started("t")
    )
    assert [resumed_at(rows, place) for place in range(len(rows) + 1)] == [info_of(rows)] * (len(rows) + 1)


def started(turn_id: str) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn_id, "reason": {"kind": "recovery"}})


def resumed_at(rows: list[Any], place: int) -> SessionInfo:
    """The info when the summary was put away after that many rows, and resumed."""
    before = Summary()
    for row in rows[:place]:
        before.apply(row)
    info, (state, turns) = before.info(), before.leave_out()
    after = Summary.resumed(info, state, {turn.turn_id: turn for turn in turns}.get)
    for row in rows[place:]:
        after.apply(row)
    return after.info()
