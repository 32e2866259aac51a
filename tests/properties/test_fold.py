"""What holds for every journal, however wild: small pools of ids make reuse, late rows and crashes frequent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import any_journal, journals

from segue.errors import PendingCalls
from segue.events import Envelope
from segue.fold import (
    INTERRUPTED,
    CallGraph,
    Conversation,
    Node,
    Summary,
    Turns,
    Usage,
    Wait,
    Waits,
    fold,
    fold_from,
    provider_messages,
)
from segue.testing.validity import problems, provider_problems

Message = dict[str, Any]


@given(journals)
def test_every_prefix_is_acceptable(journal: list[Envelope]) -> None:
    view = Conversation()
    for row in journal:
        view.apply(row)
        assert problems(view.messages()) == []


@given(journals, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 39)), max_size=6))
def test_rows_that_come_again_late_leave_it_acceptable(
    journal: list[Envelope], late: list[tuple[int, int]]
) -> None:
    mixed = journal[:]
    for place, which in late if journal else []:
        mixed.insert(place, journal[which % len(journal)])
    view = Conversation()
    for row in mixed:
        view.apply(row)
        assert problems(view.messages()) == []


@given(journals)
def test_the_provider_view_is_strict_or_says_which_calls_are_open(journal: list[Envelope]) -> None:
    messages = fold(journal).messages()
    if problems(messages, open_end=False):
        with pytest.raises(PendingCalls):
            provider_messages(messages)
        return
    sent = provider_messages(messages)
    assert provider_problems(sent) == []
    assert provider_messages(sent) == sent


@given(journals)
def test_pending_calls_are_open_at_the_end_of_the_history(journal: list[Envelope]) -> None:
    view = fold(journal)
    pending = [call["tool_call_id"] for call in view.pending_tool_calls]
    assert view.pending_tool_call == (view.pending_tool_calls[0] if pending else None)
    assert [call_id for call_id in pending if call_id not in open_at_end(view.messages())] == []


def open_at_end(messages: list[Message]) -> list[str]:
    answered: list[str] = []
    while messages and messages[-1]["role"] == "tool":
        answered.append(messages.pop()["tool_call_id"])
    calls = messages[-1].get("tool_calls", []) if messages else []
    return [call["id"] for call in calls if call["id"] not in answered]


@given(journals, st.integers(0, 40))
def test_folding_on_is_folding_all(journal: list[Envelope], cut: int) -> None:
    head, tail = journal[:cut], journal[cut:]
    earlier = fold(head)
    before = state(earlier)
    assert state(fold_from(earlier, tail)) == state(fold(journal))
    assert state(earlier) == before == state(fold(head))


def state(view: Conversation) -> Any:
    """Compared as text: NaN equals itself then."""
    return repr((view.messages(), view.pending_tool_calls, view.diagnostics))


@given(journals)
def test_reading_in_between_changes_nothing(journal: list[Envelope]) -> None:
    view = Conversation()
    for row in journal:
        view.apply(row)
        ruin(view.messages())
        ruin(view.pending_tool_calls)
    assert state(view) == state(fold(journal))


def ruin(value: Any) -> None:
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, (dict, list)):
            ruin(item)
    value.clear()


@given(journals)
def test_the_fold_reads_neither_seq_nor_id_nor_time(journal: list[Envelope]) -> None:
    other = [msgspec.structs.replace(row, id="x", seq=7, created_at="never") for row in journal]
    assert repr(fold(other).messages()) == repr(fold(journal).messages())


@given(journals)
def test_from_one_invocation_to_the_next_the_shown_history_is_only_extended(journal: list[Envelope]) -> None:
    view, shown = Conversation(), list[list[Message]]()
    for row in journal:
        known = len(view.diagnostics)
        view.apply(row)
        if row.type == "TRANSCRIPT_COMPACTED":
            shown.clear()
        elif row.type == "INVOCATION_STARTED" and len(view.diagnostics) == known:
            shown.append(view.messages())
    for before, after in pairwise(shown):
        assert_extended(blocks(before), blocks(after))


def blocks(messages: list[Message]) -> list[tuple[str, list[str]]]:
    """Each message as text, with its real results."""
    found: list[tuple[str, list[str]]] = []
    for message in messages:
        if message["role"] != "tool":
            found.append((repr(message), []))
        elif message["content"] != INTERRUPTED:
            found[-1][1].append(repr(message))
    return found


def assert_extended(before: list[tuple[str, list[str]]], after: list[tuple[str, list[str]]]) -> None:
    assert [text for text, _ in before] == [text for text, _ in after[: len(before)]]
    for (_, early), (_, late) in zip(before, after, strict=False):
        assert early == late[: len(early)]


@given(journals)
def test_without_late_results_the_shown_history_is_a_prefix_word_for_word(journal: list[Envelope]) -> None:
    view, shown, own = Conversation(), list[str](), set[str]()
    for row in journal:
        payload = row.payload if isinstance(row.payload, dict) else {}
        known, call_id = len(view.diagnostics), repr(payload.get("tool_call_id"))
        if row.type == "TOOL_RESULT" and call_id not in own:
            continue
        view.apply(row)
        if row.type == "TOOL_CALL":
            own.add(call_id)
        elif row.type == "TRANSCRIPT_COMPACTED":
            shown.clear()
        elif row.type == "INVOCATION_STARTED" and len(view.diagnostics) == known:
            own.clear()
            shown.append(repr(view.messages())[:-1])
    for before, after in pairwise(shown):
        assert after.startswith(before)


@given(journals, journals, st.integers(0, 40))
def test_what_the_head_hides_has_no_part_in_the_fold(
    old: list[Envelope], new: list[Envelope], to_seq: int
) -> None:
    end = len(old) and old[-1].seq
    back = Envelope("evt", "ses", "dep", end + 1, "HEAD_MOVED", {"to_seq": min(to_seq, end)}, "")
    later = [msgspec.structs.replace(row, seq=row.seq + end + 1) for row in new]
    kept = [row for row in old if row.seq <= to_seq]
    assert repr(fold([*old, back, *later]).messages()) == repr(fold([*kept, *later]).messages())


@given(any_journal)
def test_no_view_fails_on_any_journal(journal: list[Envelope]) -> None:
    graph, turns, summary, waits, usage = CallGraph(), Turns(), Summary(), Waits(), Usage()
    conversation = Conversation()
    for row in journal:
        for view in (graph, turns, summary, waits, usage, conversation):
            view.apply(row)
    assert {type(node) for node in graph.nodes.values()} <= {Node}
    assert {type(wait) for wait in waits.open} <= {Wait}
    assert summary.info().turns == len(turns)


@given(journals)
def test_an_approval_that_waits_is_pending_in_its_conversation(journal: list[Envelope]) -> None:
    waits = Waits()
    for row in journal:
        waits.apply(row)
    open_approvals = {wait.id for wait in waits.open if wait.kind == "approval" and not wait.called_by}
    assert open_approvals <= {call["tool_call_id"] for call in fold(journal).pending_tool_calls}
