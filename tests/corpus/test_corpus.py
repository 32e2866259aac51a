"""Journals of every format that was ever written must still be read, to the byte, and still fold."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.errors import PendingCalls
from segue.events import EVENT_TYPES
from segue.events.codec import decode_event, decode_row, encode_payload, encode_row
from segue.fold import provider_messages
from segue.fold.conversation import Conversation
from segue.fold.path import active_path
from segue.testing.validity import provider_problems

JOURNALS = sorted(Path(__file__).parent.glob("*.jsonl"))


def lines(journal: Path) -> list[bytes]:
    return journal.read_bytes().removesuffix(b"\n").split(b"\n")


def test_the_journals_use_every_event_type() -> None:
    assert {decode_row(line).type for journal in JOURNALS for line in lines(journal)} == EVENT_TYPES


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_the_rows_of_a_journal_are_numbered_without_a_gap(journal: Path) -> None:
    rows = [decode_row(line) for line in lines(journal)]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_row_is_written_back_as_it_was(journal: Path) -> None:
    assert [encode_row(decode_row(line)) for line in lines(journal)] == lines(journal)


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_row_is_a_fact_that_would_be_written_the_same_today(journal: Path) -> None:
    for line in lines(journal):
        assert b'"payload":' + encode_payload(decode_event(decode_row(line))) + b"," in line


def folded(rows: int) -> list[dict[str, Any]]:
    view = pytest.importorskip("segue.fold.conversation").Conversation()
    for line in lines(Path(__file__).parent / "v1.jsonl")[:rows]:
        view.apply(decode_row(line))
    messages: list[dict[str, Any]] = view.messages()
    return messages


def test_the_first_turn_of_the_first_version_still_folds_to_its_messages() -> None:
    weather = {
        "name": "weather",
        "arguments": '{"city": "Berlin", "exact": -0.0, "big": 1' + "0" * 4_998 + "7}",
    }
    delete = {"name": "delete", "arguments": "{not json"}
    assert folded(24) == [
        {"role": "user", "content": "What is the weather? \u2028 \U0001f600"},
        {
            "role": "assistant",
            "content": "Let me look \U0001f600\0.",
            "reasoning_content": "The user asks for the weather.",
            "_native_chunks": [{"type": "vendor.citation", "index": 0, "url": "https://example.org/"}],
            "_framework_state": {"node": "agent", "step": 3},
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": weather},
                {"id": "call_2", "type": "function", "function": delete},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature": 21.5, "unit": "C"}'},
        {"role": "tool", "tool_call_id": "call_2", "content": "null"},
        {"role": "assistant", "content": "It is 21.5 degrees."},
    ]


def test_all_of_the_first_version_still_folds_to_its_last_compaction() -> None:
    assert folded(49) == [
        {"role": "user", "content": "Summary: \u2029"},
        {"role": "assistant", "content": "Noted."},
    ]


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_with_any_row_lost_a_journal_still_folds_to_what_a_provider_accepts(journal: Path) -> None:
    rows = [decode_row(line) for line in lines(journal)]
    lost = msgspec.structs.replace(rows[0], type="ROW_LOST", payload={"reason": "damaged"})
    for place in range(len(rows)):
        replaced = [*rows[:place], msgspec.structs.replace(lost, seq=place + 1), *rows[place + 1 :]]
        conversation = Conversation()
        for row in active_path(replaced):
            conversation.apply(row)
        with contextlib.suppress(PendingCalls):
            assert provider_problems(provider_messages(conversation.messages(), "openai")) == [], place
