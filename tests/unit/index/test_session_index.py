"""Listing and searching through the index, here in memory; its file is tested in `integration`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from segue.errors import UsageError
from segue.index import Filters, Found, SessionIndex
from segue.stores.memory import MemoryStore

Write = Callable[..., None]
ENDED = ("NO_MORE_ACTIONS", {})


def asked(words: Any, turn_id: str = "t") -> tuple[str, dict[str, Any]]:
    return (
        "INVOCATION_STARTED",
        {"turn_id": turn_id, "reason": {"kind": "user_message", "input": words}},
    )


def answered(*texts: str, message_id: str = "m") -> list[tuple[str, dict[str, Any]]]:
    deltas = [
        ("MESSAGE_DELTA", {"message_id": message_id, "delta": {"type": "text", "text": text}})
        for text in texts
    ]
    return [
        ("MESSAGE_START", {"message_id": message_id}),
        *deltas,
        ("MESSAGE_END", {"message_id": message_id}),
    ]


def updated(**fields: Any) -> tuple[str, dict[str, Any]]:
    return ("SESSION_UPDATED", fields)


def ids(found: list[Any]) -> list[str]:
    return [getattr(one, "session_id", None) or one.session.session_id for one in found]


def listed(index: SessionIndex, **filters: Any) -> list[str]:
    return ids(index.listed(Filters(**filters)))


def hits(found: list[Found]) -> list[tuple[str, str, str, list[str]]]:
    """Kind, name, snippet and what stands out of each session's hit."""
    return [
        (hit.kind, hit.name, hit.snippet, [hit.snippet[begin:end] for begin, end in hit.marks])
        for hit in (one.hit for one in found)
    ]


# Listing


def test_the_most_recently_active_comes_first_and_equals_by_id(index: SessionIndex, write: Write) -> None:
    for session_id, day in (("old", 1), ("b", 2), ("a", 2), ("new", 3)):
        write(session_id, asked("x"), ENDED, day=day)
    assert listed(index) == ["new", "a", "b", "old"]


def test_a_page_of_the_listing(index: SessionIndex, write: Write) -> None:
    for day in range(1, 8):
        write(f"s{day}", asked("x"), ENDED, day=day)
    pages = [ids(index.listed(Filters(), limit=3, offset=offset)) for offset in (0, 3, 6, 9)]
    assert pages == [["s7", "s6", "s5"], ["s4", "s3", "s2"], ["s1"], []]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"done", "waits", "empty", "put away"}),
        ({"without_turns": False}, {"done", "waits", "put away"}),
        ({"status": "completed"}, {"done", "put away"}),
        ({"status": "suspended"}, {"waits"}),
        ({"status": "idle"}, {"empty"}),
        ({"agent": "desk"}, {"done"}),
        ({"source": "cli"}, {"done"}),
        ({"tag": "roof"}, {"done"}),
        ({"tag": "oo"}, set()),
        ({"tag": "\ud83d"}, set()),
        ({"archived": True}, {"put away"}),
        ({"archived": False}, {"done", "waits", "empty"}),
        ({"pinned": True}, {"waits"}),
        ({"since": "2026-01-03"}, {"waits", "empty"}),
        ({"until": "2026-01-03"}, {"done", "put away"}),
        ({"title": "THE ROOF"}, {"done"}),
        ({"title": "%"}, set()),
        ({"title": "'"}, {"waits"}),
        ({"status": "completed", "archived": False}, {"done"}),
    ],
)
def test_filters(index: SessionIndex, write: Write, filters: dict[str, Any], expected: set[str]) -> None:
    created = {"agent_id": "desk", "source": "cli", "tags": ["roof", "money"], "title": "About the roof"}
    write("done", ("SESSION_CREATED", created), asked("x"), ENDED, day=1)
    write("put-away", asked("y"), ENDED, updated(archived=True), day=2)
    write("waits", asked("it's"), ("TURN_SUSPENDED", {"turn_id": "t"}), updated(pinned=True), day=3)
    write("empty", ("SESSION_CREATED", {}), day=4)
    assert set(listed(index, **filters)) == {name.replace(" ", "-") for name in expected}


def test_a_turn_whose_process_died_is_listed_and_filtered_as_interrupted(
    index: SessionIndex, store: MemoryStore, write: Write
) -> None:
    for session_id in ("alive", "dead"):
        write(session_id, asked("x"))
    store.acquire("alive", holder="the turn")
    statuses = {info.session_id: info.status for info in index.listed(Filters())}
    found = [listed(index, status=status) for status in ("running", "interrupted")]
    assert (statuses, found) == ({"alive": "running", "dead": "interrupted"}, [["alive"], ["dead"]])


def test_a_deleted_session_made_again_is_the_new_one(
    index: SessionIndex, store: MemoryStore, write: Write
) -> None:
    write("s", asked("old words"), ENDED)
    before = ids(index.search("old", Filters()))
    store.delete("s")
    write("s", asked("new words"), ENDED)
    after = [ids(index.search(word, Filters())) for word in ("old", "new")]
    assert (before, after, index.listed(Filters())[0].title) == (["s"], [[], ["s"]], "new words")


def test_what_is_written_between_two_listings_is_listed(index: SessionIndex, write: Write) -> None:
    write("s", asked("first"))
    seen = [index.listed(Filters())[0]]
    write("s", ENDED, asked("second", "u"))
    seen.append(index.listed(Filters())[0])
    write("s", ("TURN_SUSPENDED", {"turn_id": "u"}), updated(title="Named"))
    seen.append(index.listed(Filters())[0])
    assert [(info.title, info.turns, info.events, info.status) for info in seen] == [
        ("first", 1, 1, "interrupted"),
        ("first", 2, 3, "interrupted"),
        ("Named", 2, 5, "suspended"),
    ]


def test_a_rewind_changes_neither_counts_nor_what_is_found(index: SessionIndex, write: Write) -> None:
    write("s", asked("one", "t"), ENDED, asked("two", "u"), ENDED)
    before = index.listed(Filters())[0]
    write("s", ("HEAD_MOVED", {"to_seq": 2}), asked("three", "v"), ENDED)
    after = index.listed(Filters())[0]
    assert (before.turns, after.turns, after.events) == (2, 3, 7)
    assert [ids(index.search(word, Filters())) for word in ("two", "three")] == [["s"], ["s"]]


# Searching


def test_a_streamed_message_is_one_text(index: SessionIndex, write: Write) -> None:
    write("s", asked("x"), *answered("The ro", "of lea", "ks."), ENDED)
    assert hits(index.search('"roof leaks"', Filters())) == [
        ("message", "assistant", "The roof leaks.", ["roof leaks"])
    ]


def test_a_message_is_found_while_it_is_written_and_once_it_is_whole(
    index: SessionIndex, write: Write
) -> None:
    start, first, second, end = answered("half of", " it all")
    write("s", asked("x"), start, first)
    seen = [hits(index.search("half", Filters()))]
    write("s", second, end)
    seen.append(hits(index.search("half", Filters())))
    assert [[hit[2] for hit in found] for found in seen] == [["half of"], ["half of it all"]]


@pytest.mark.parametrize(
    ("row", "hit"),
    [
        (asked("needle"), ("message", "user", "needle")),
        (asked([{"type": "text", "text": "needle"}, {"type": "image"}]), ("message", "user", "needle")),
        (asked({"topic": "needle"}), ("message", "user", "topic: needle")),
        (
            (
                "TOOL_CALL",
                {"tool_call_id": "c", "name": "read", "arguments": {"path": "a/needle.py", "n": 3}},
            ),
            ("tool call", "read", "read path: a/needle.py n: 3"),
        ),
        (
            ("TOOL_RESULT", {"tool_call_id": "c", "result": {"lines": ["one\nneedle", True, None]}}),
            ("result", "", "lines: one needle true"),
        ),
        (
            (
                "CALL_STARTED",
                {"node_id": "n", "kind": "function", "name": "m:f", "arguments": {"x": "needle"}},
            ),
            ("call", "m:f", "m:f x: needle"),
        ),
        (
            ("CALL_ENDED", {"node_id": "n", "status": "completed", "result": "needle"}),
            ("result", "", "needle"),
        ),
        (
            ("CALL_ENDED", {"node_id": "n", "status": "failed", "error": {"message": "no needle"}}),
            ("error", "", "no needle"),
        ),
        (
            ("QUESTION_ASKED", {"question_id": "q", "question": "Which?", "options": ["pin", "needle"]}),
            ("question", "", "Which? pin needle"),
        ),
        (("QUESTION_ANSWERED", {"question_id": "q", "answer": "needle"}), ("answer", "", "needle")),
        (("ERROR", {"message": "no needle"}), ("error", "", "no needle")),
        (("SESSION_ERROR", {"message": "no needle"}), ("error", "", "no needle")),
        (updated(title="A needle"), ("title", "", "A needle")),
        (updated(tags=["pin", "needle"]), ("tags", "", "pin needle")),
        (
            ("CALL_RESOLVED", {"call_id": "c", "action": "result", "result": "needle"}),
            ("result", "", "needle"),
        ),
    ],
)
def test_what_is_found(index: SessionIndex, write: Write, row: Any, hit: tuple[str, str, str]) -> None:
    write("s", row)
    assert hits(index.search("needle", Filters())) == [(*hit, ["needle"])]


def test_a_result_has_the_name_of_its_call(index: SessionIndex, write: Write) -> None:
    write("s", ("TOOL_CALL", {"tool_call_id": "c", "name": "read", "arguments": {}}))
    index.listed(Filters())
    write("s", ("TOOL_RESULT", {"tool_call_id": "c", "result": "needle"}))
    assert hits(index.search("needle", Filters())) == [("result", "read", "needle", ["needle"])]


def test_a_models_reply_is_found_once(index: SessionIndex, write: Write) -> None:
    write(
        "s",
        ("CALL_STARTED", {"node_id": "n", "kind": "model", "name": "m", "arguments": {}}),
        *answered("needle"),
        ("CALL_ENDED", {"node_id": "n", "status": "completed", "result": "needle"}),
    )
    assert [one.count for one in index.search("needle", Filters())] == [1]


def test_an_old_title_and_old_tags_are_not_found(index: SessionIndex, write: Write) -> None:
    write("s", ("SESSION_CREATED", {"title": "Old name", "tags": ["old"]}))
    index.listed(Filters())
    write("s", updated(title="New name", tags=[]))
    assert [ids(index.search(word, Filters())) for word in ("old", "new")] == [[], ["s"]]


def test_a_session_comes_once_with_its_best_hit_and_the_number_of_all(
    index: SessionIndex, write: Write
) -> None:
    for words in ("a needle among many other words", "needle", "some more about a needle"):
        write("s", asked(words), ENDED)
    [found] = index.search("needle", Filters())
    assert (found.session.session_id, found.count, found.hit.seq) == ("s", 3, 3)


def test_better_and_more_recent_sessions_come_first(index: SessionIndex, write: Write) -> None:
    filler = "and many other words about other things that nobody searches for " * 5
    write("old", asked("roof"), ENDED, day=1)
    write("new", asked("roof"), ENDED, day=30)
    write("aside", asked(filler + "roof " + filler), ENDED, day=30)
    for number in range(20):
        write(f"other{number}", asked("something else"), ENDED, day=2)
    assert ids(index.search("roof", Filters())) == ["new", "old", "aside"]


def test_a_search_takes_filters_and_a_limit(index: SessionIndex, write: Write) -> None:
    for day in range(1, 6):
        write(f"s{day}", asked("needle"), ENDED, updated(archived=day % 2 == 0), day=day)
    found = [ids(index.search("needle", Filters(archived=False), limit=limit)) for limit in (2, 9)]
    assert found == [["s5", "s3"], ["s5", "s3", "s1"]]


def test_a_snippet_is_one_line_around_what_was_found(index: SessionIndex, write: Write) -> None:
    write("s", asked("word " * 500 + "\n\n the needle \t here " + "word " * 500))
    [(_, _, snippet, marked)] = hits(index.search("needle", Filters()))
    assert (marked, "the needle here" in snippet, "\n" in snippet, len(snippet) < 170) == (
        ["needle"],
        True,
        False,
        True,
    )


def test_a_part_of_a_name_stands_out_far_down_in_a_text(index: SessionIndex, write: Write) -> None:
    write("s", asked("word " * 500 + "call getUserName twice " + "word " * 500))
    [(_, _, snippet, marked)] = hits(index.search("user", Filters()))
    assert (marked, "call getUserName twice" in snippet) == (["User"], True)


def test_what_is_beyond_the_bound_of_a_text_is_not_found(index: SessionIndex, write: Write) -> None:
    write("s", asked("early " + "x" * 70_000 + " late"))
    assert [ids(index.search(word, Filters())) for word in ("early", "late")] == [["s"], []]


def test_a_word_that_is_one_huge_run_is_no_trouble(index: SessionIndex, write: Write) -> None:
    write("s", asked("needle" + "Ab1" * 50_000))
    [(_, _, snippet, _)] = hits(index.search("needle", Filters()))
    assert len(snippet) <= 160


def test_a_query_without_words_is_a_usage_error_before_anything_is_read(index: SessionIndex) -> None:
    with pytest.raises(UsageError):
        index.search("", Filters())


def test_progress_is_told_for_each_session(index: SessionIndex, write: Write) -> None:
    for number in range(3):
        write(f"s{number}", asked("x"))
    told: list[tuple[int, int]] = []
    index.listed(Filters(), progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_a_session_changed_in_the_middle_is_read_anew_when_it_is_forgotten(
    index: SessionIndex, store: MemoryStore, write: Write
) -> None:
    write("s", asked("old words"), ENDED)
    index.listed(Filters())
    lines = store._sessions["s"].lines
    lines[0] = lines[0].replace(b"old words", b"new words")
    index.forget("s")
    assert [ids(index.search(word, Filters())) for word in ("old", "new")] == [[], ["s"]]
