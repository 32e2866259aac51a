"""The fold against 60 named scenarios and 150 generated journals with their right results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from segue.events import Envelope
from segue.fold import Conversation, fold, fold_from
from segue.testing.validity import problems

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for name in ("scenarios.jsonl", "journals.jsonl")
    for line in (Path(__file__).parent / "fold" / name).read_text(encoding="utf-8").splitlines()
]
every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def envelopes(rows: list[Any]) -> list[Envelope]:
    return [
        Envelope(f"evt_{seq}", "ses", "dep", seq, kind, payload, "2026-01-01T00:00:00Z")
        for seq, (kind, payload) in enumerate(rows, 1)
    ]


def test_all_cases_are_here() -> None:
    assert len(CASES) == 60 + 150


@every_case
def test_messages_and_pending_call_are_the_expected_ones(case: dict[str, Any]) -> None:
    view = fold(envelopes(case["rows"]))
    assert {"messages": view.messages(), "pending": view.pending_tool_call} == {
        "messages": case["messages"],
        "pending": case["pending"],
    }


@every_case
def test_every_prefix_is_valid_and_the_same_as_a_fold_of_that_prefix_alone(case: dict[str, Any]) -> None:
    rows, view = envelopes(case["rows"]), Conversation()
    for length, row in enumerate(rows, 1):
        view.apply(row)
        assert problems(view.messages()) == []
        assert view.messages() == fold(rows[:length]).messages()


@every_case
def test_rows_that_come_late_or_twice_leave_every_prefix_valid(case: dict[str, Any]) -> None:
    chance = random.Random(case["name"])
    for _ in range(10):
        rows, view = list(case["rows"]), Conversation()
        for _ in range(1 + len(rows) // 10):
            rows.insert(chance.randrange(len(rows) + 1), chance.choice(rows))
        for row in envelopes(rows):
            view.apply(row)
            assert problems(view.messages()) == []


@every_case
def test_a_fold_goes_on_from_any_earlier_one_without_changing_it(case: dict[str, Any]) -> None:
    rows = envelopes(case["rows"])
    cut = random.Random(case["name"]).randrange(len(rows) + 1)
    earlier = fold(rows[:cut])
    before = earlier.messages()
    later = fold_from(earlier, rows[cut:])
    assert later.messages() == case["messages"]
    assert later.pending_tool_call == case["pending"]
    assert earlier.messages() == before
