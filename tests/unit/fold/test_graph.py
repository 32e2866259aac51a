from __future__ import annotations

from typing import Any

import pytest

from segue.events import EVENT_TYPES
from segue.fold import CallGraph, Node


def graph_of(rows: list[Any]) -> CallGraph:
    graph = CallGraph()
    for row in rows:
        graph.apply(row)
    return graph


def invoked(turn: str = "t", kind: str = "user_message") -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": turn, "reason": {"kind": kind, "input": "q"}})


def started(node: str, called_by: str = "", **more: Any) -> tuple[str, Any]:
    return (
        "CALL_STARTED",
        {"node_id": node, "kind": "function", "name": "m:f", "called_by": called_by, **more},
    )


def ended(node: str, status: str = "completed", **more: Any) -> tuple[str, Any]:
    return ("CALL_ENDED", {"node_id": node, "status": status, **more})


def tool(kind: str, call_id: str = "c", **more: Any) -> tuple[str, Any]:
    return (kind, {"tool_call_id": call_id, "name": "f", "arguments": {"a": 1}, **more})


def statuses(graph: CallGraph) -> dict[str, str]:
    return {node.id: node.status for node in graph.nodes.values()}


def test_a_call_is_one_node_with_all_that_its_rows_say(journal: Any) -> None:
    details = {"doc": "Do.", "expose": "io", "context": "digest", "predecessor": "before", "arguments": [1]}
    usage = {"input_tokens": 3}
    graph = graph_of(journal(invoked(), started("n", **details), ended("n", result=0, usage=usage)))
    assert graph.get("n") == Node(
        id="n",
        kind="function",
        name="m:f",
        predecessor="before",
        arguments=[1],
        doc="Do.",
        expose="io",
        context="digest",
        status="completed",
        result=0,
        usage=usage,
        turn_id="t",
        seq=2,
        started_at="2026-01-01T00:00:02Z",
        ended_seq=3,
        ended_at="2026-01-01T00:00:03Z",
    )


def test_edges_are_answered_both_ways(journal: Any) -> None:
    graph = graph_of(
        journal(started("a"), started("b", "a"), started("c", "a"), started("d", "c"), started("e"))
    )
    assert [node.id for node in graph.roots()] == ["a", "e"]
    assert [node.id for node in graph.children("a")] == ["b", "c"]
    assert [node.id for node in graph.callers("d")] == ["c", "a"]
    assert graph.last_child("a") == graph.get("c")
    assert graph.last_child("") == graph.get("e")
    assert (graph.last_child("d"), graph.children("nowhere"), graph.callers("nowhere")) == (None, [], [])


def test_callers_in_a_circle_are_named_once(journal: Any) -> None:
    graph = graph_of(journal(started("a", "b"), started("b", "a"), started("c", "c")))
    assert [node.id for node in graph.callers("a")] == ["b", "a"]
    assert [node.id for node in graph.callers("c")] == ["c"]


def test_the_first_terminal_status_wins(journal: Any) -> None:
    rows = journal(
        started("a"), ended("a", "failed", error={"type": "E"}), ended("a", result=1), started("a", attempt=2)
    )
    node = graph_of(rows).nodes["a"]
    assert (node.status, node.error, node.result, node.attempt) == ("failed", {"type": "E"}, None, 1)


@pytest.mark.parametrize("status", ["interrupted", "suspended"])
def test_the_next_attempt_puts_an_unfinished_call_back_to_running_in_its_place(
    journal: Any, status: str
) -> None:
    rows = journal(started("a"), started("b", "a"), ended("b", status), started("b", "elsewhere", attempt=2))
    graph = graph_of(rows)
    node = graph.nodes["b"]
    assert (node.status, node.attempt, node.seq, node.called_by, node.ended_at) == ("running", 2, 2, "a", "")
    assert [child.id for child in graph.children("a")] == ["b"]
    assert graph.running() == [graph.nodes["a"], node]


def test_a_node_handed_out_stays_as_it_was(journal: Any) -> None:
    rows = journal(started("a"), ended("a"))
    graph = graph_of(rows[:1])
    before = graph.nodes["a"]
    graph.apply(rows[1])
    assert (before.status, graph.nodes["a"].status) == ("running", "completed")


def test_a_question_is_a_node_that_waits_for_its_answer(journal: Any) -> None:
    asked = ("QUESTION_ASKED", {"question_id": "q", "question": "Which?", "options": ["a"], "called_by": "n"})
    rows = journal(started("n"), asked, ("QUESTION_ANSWERED", {"question_id": "q", "answer": "a"}))
    waiting, answered = graph_of(rows[:2]).nodes["q"], graph_of(rows).nodes["q"]
    assert (waiting.kind, waiting.name, waiting.called_by, waiting.status) == (
        "question",
        "Which?",
        "n",
        "suspended",
    )
    assert waiting.arguments == {"question": "Which?", "options": ["a"]}
    assert (answered.status, answered.result) == ("completed", "a")


def test_an_answer_does_not_end_another_kind_of_call(journal: Any) -> None:
    rows = journal(started("n"), ("QUESTION_ANSWERED", {"question_id": "n", "answer": 1}))
    assert statuses(graph_of(rows)) == {"n": "running"}


def test_a_tool_call_waits_then_runs_then_has_its_result(journal: Any) -> None:
    rows = journal(
        tool("TOOL_CALL", called_by="n"), tool("TOOL_STARTED", attempt=2), tool("TOOL_RESULT", result=None)
    )
    seen = [graph_of(rows[:length]).nodes["c"] for length in (1, 2, 3)]
    assert [node.status for node in seen] == ["suspended", "running", "completed"]
    assert (seen[2].kind, seen[2].called_by, seen[2].attempt, seen[2].arguments) == ("tool", "n", 2, {"a": 1})


def test_a_tool_that_fails_is_a_failed_call(journal: Any) -> None:
    rows = journal(tool("TOOL_CALL"), tool("TOOL_RESULT", result="no", is_error=True))
    assert statuses(graph_of(rows)) == {"c": "failed"}


def test_a_call_id_used_again_is_a_call_of_its_own(journal: Any) -> None:
    rows = journal(
        tool("TOOL_CALL"), tool("TOOL_RESULT", result=1), tool("TOOL_CALL"), tool("TOOL_RESULT", result=2)
    )
    assert {node.id: node.result for node in graph_of(rows).nodes.values()} == {"c": 1, "c@3": 2}


def test_a_call_left_behind_by_the_user_is_not_answered_by_the_next_one_of_its_id(journal: Any) -> None:
    rows = journal(
        invoked(), tool("TOOL_CALL"), invoked("u"), tool("TOOL_CALL"), tool("TOOL_RESULT", result=2)
    )
    assert statuses(graph_of(rows)) == {"c": "suspended", "c@4": "completed"}


def test_a_call_said_again_by_the_resuming_invocation_is_the_same_call(journal: Any) -> None:
    again = [tool("TOOL_APPROVAL_REQUIRED"), invoked(kind="approval_decision"), tool("TOOL_CALL")]
    assert statuses(graph_of(journal(invoked(), tool("TOOL_CALL"), *again))) == {"c": "suspended"}


def test_an_approval_whose_call_was_never_journaled_is_a_call(journal: Any) -> None:
    rows = journal(tool("TOOL_APPROVAL_REQUIRED"), tool("TOOL_STARTED"), tool("TOOL_RESULT", result=1))
    assert statuses(graph_of(rows)) == {"c": "completed"}


HOSTILE: list[Any] = [None, 5, "text", [], {}, [None], {"a": []}, True]
KEYS = [
    "node_id",
    "kind",
    "status",
    "called_by",
    "attempt",
    "question_id",
    "tool_call_id",
    "reason",
    "turn_id",
    "usage",
]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_payload_of_any_type_breaks_the_graph(journal: Any, kind: str) -> None:
    whole = dict.fromkeys(KEYS, "n")
    payloads = [*HOSTILE, *[{**whole, key: value} for key in KEYS for value in HOSTILE]]
    graph = graph_of(journal(started("n"), *[(kind, payload) for payload in payloads]))
    assert [type(node) for node in graph.nodes.values()] == [Node] * len(graph)


def test_an_answer_costs_in_proportion_to_itself(journal: Any) -> None:
    graph = graph_of(
        journal(started("a"), *[started(f"n{at}", "other") for at in range(1000)], started("b", "a"))
    )
    graph.nodes = LookUps(graph.nodes)
    assert [node.id for node in graph.children("a")] == ["b"]
    assert [node.id for node in graph.callers("b")] == ["a"]
    assert graph.last_child("a") is not None
    assert graph.nodes.count <= 8


class LookUps(dict[str, Node]):
    """Counts look-ups, and does not allow to walk over all."""

    count = 0

    def __getitem__(self, key: str) -> Node:
        self.count += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)

    def __iter__(self) -> Any:
        raise AssertionError("walked over all nodes")

    values = items = keys = __iter__
