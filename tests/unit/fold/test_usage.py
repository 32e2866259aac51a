from __future__ import annotations

from typing import Any

import pytest

from segue.fold import Usage


def usage_of(rows: list[Any]) -> Usage:
    usage = Usage()
    for row in rows:
        usage.apply(row)
    return usage


def invoked(turn: str) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn, "reason": {}})


def started(node: str, called_by: str = "") -> tuple[str, Any]:
    return ("CALL_STARTED", {"node_id": node, "kind": "model", "name": "m", "called_by": called_by})


def ended(node: str, tokens: Any, status: str = "completed") -> tuple[str, Any]:
    return ("CALL_ENDED", {"node_id": node, "status": status, "usage": {"input_tokens": tokens, "cost": 0.5}})


def test_usage_is_summed_by_call_turn_and_session(journal: Any) -> None:
    first = [invoked("t"), started("f"), started("a", "f"), ended("a", 1), started("b", "f"), ended("b", 2)]
    usage = usage_of(journal(*first, invoked("u"), started("c"), ended("c", 4)))
    assert usage.session == {"input_tokens": 7, "cost": 1.5}
    assert usage.turn("t") == {"input_tokens": 3, "cost": 1.0}
    assert usage.turn("u") == {"input_tokens": 4, "cost": 0.5}
    assert usage.node("f") == {"input_tokens": 3, "cost": 1.0}
    assert usage.node("a") == {"input_tokens": 1, "cost": 0.5}
    assert (usage.node("nowhere"), usage.turn("nowhere")) == ({}, {})


def test_every_attempt_counts_and_nothing_after_the_end(journal: Any) -> None:
    rows = journal(started("a"), ended("a", 1, "interrupted"), started("a"), ended("a", 2), ended("a", 4))
    assert usage_of(rows).session == {"input_tokens": 3, "cost": 1.0}


@pytest.mark.parametrize("count", [None, "5", True, [1], {"a": 1}, float("nan"), float("inf")])
def test_what_is_no_number_is_not_counted(journal: Any, count: Any) -> None:
    assert usage_of(journal(started("a"), ended("a", count))).session == {"cost": 0.5}


def test_calls_in_a_circle_count_once_each(journal: Any) -> None:
    usage = usage_of(journal(started("a", "b"), started("b", "a"), ended("a", 1)))
    assert (usage.node("a"), usage.node("b")) == ({"input_tokens": 1, "cost": 0.5},) * 2


@pytest.mark.parametrize(
    "payload", [None, 5, [], {}, {"node_id": []}, {"node_id": "a", "usage": 5, "status": []}]
)
@pytest.mark.parametrize("kind", ["INVOCATION_STARTED", "CALL_STARTED", "CALL_ENDED"])
def test_no_payload_breaks_the_sums(journal: Any, kind: str, payload: Any) -> None:
    assert usage_of(journal(started("a"), (kind, payload), ended("a", 1))).session == {
        "input_tokens": 1,
        "cost": 0.5,
    }
