"""Ways in which other software breaks its sessions, each with what is right here.

Every scenario is also given to a naive fold, which must fail it: else the scenario would prove nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from segue.errors import PendingCalls
from segue.events import Envelope
from segue.fold import INTERRUPTED, STITCH, Waits, fold, provider_messages, wire_names
from segue.testing.validity import provider_problems

Row = tuple[str, Any]


def said(text: str, kind: str = "user_message") -> Row:
    return ("INVOCATION_STARTED", {"turn_id": "t", "reason": {"kind": kind, "input": text}})


def message(message_id: str, *texts: str, role: str = "assistant", end: bool = True) -> list[Row]:
    deltas = [
        ("MESSAGE_DELTA", {"message_id": message_id, "delta": {"type": "text", "text": t}}) for t in texts
    ]
    ending = [("MESSAGE_END", {"message_id": message_id})] if end else []
    return [("MESSAGE_START", {"message_id": message_id, "role": role}), *deltas, *ending]


def calling(message_id: str, **calls: tuple[str, Any]) -> list[Row]:
    """A message that makes these calls: id to name and arguments."""
    start, *rest = message(message_id)
    made = [
        tool("TOOL_CALL", call_id, name=name, arguments=value) for call_id, (name, value) in calls.items()
    ]
    return [start, *made, *rest]


def tool(kind: str, call_id: str, **more: Any) -> Row:
    return (kind, {"tool_call_id": call_id, **more})


def result(call_id: str, value: Any) -> Row:
    return tool("TOOL_RESULT", call_id, result=value)


def gate(call_id: str, name: str, arguments: Any) -> Row:
    return tool("TOOL_APPROVAL_REQUIRED", call_id, name=name, arguments=arguments)


def granted(call_id: str) -> list[Row]:
    return [tool("TOOL_APPROVAL_GRANTED", call_id), said("", "approval_decision")]


def compacted(*messages: dict[str, Any]) -> Row:
    return ("TRANSCRIPT_COMPACTED", {"messages": list(messages), "replaces_up_to_seq": 1})


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, **calls: tuple[str, str]) -> dict[str, Any]:
    wire = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, arguments) in calls.items()
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": wire} if wire else {})}


def answer(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


SUMMARY = user("Until now: the user asked, t was called.")
BATCH = {"rm": ("rm", {"p": "a"}), "mv": ("mv", {"p": "b"}), "ls": ("ls", {})}
DENIED = "Not approved: wrong folder"

SCENARIOS: dict[str, tuple[list[Row], list[dict[str, Any]]]] = {
    "B001 typing again after a stopped tool call": (
        [said("bump it"), *calling("m", c1=("bash", {"cmd": "bump"})), said("try again")],
        [
            user("bump it"),
            assistant("", c1=("bash", '{"cmd": "bump"}')),
            answer("c1", INTERRUPTED),
            user("try again"),
        ],
    ),
    "B003 a stored result whose call is missing": (
        [said("hi"), result("ghost", "boo"), *message("m", "hello"), ("NO_MORE_ACTIONS", {})],
        [user("hi"), assistant("hello")],
    ),
    "B005 a call id used again in a later turn": (
        [
            *[said("q1"), *calling("m1", s0=("search", {"q": "1"})), result("s0", "A"), *message("m2", "a1")],
            *[said("q2"), *calling("m3", s0=("search", {"q": "2"}))],
            *[said("q3"), *calling("m4", s0=("search", {"q": "3"})), result("s0", "C"), *message("m5", "a3")],
        ],
        [
            *[user("q1"), assistant("", s0=("search", '{"q": "1"}')), answer("s0", "A"), assistant("a1")],
            *[user("q2"), assistant("", s0=("search", '{"q": "2"}')), answer("s0", INTERRUPTED)],
            *[user("q3"), assistant("", s0=("search", '{"q": "3"}')), answer("s0", "C"), assistant("a3")],
        ],
    ),
    "B006 results late, in another order, with the user in between": (
        [
            *[said("both"), *calling("m", c1=("slow", {}), c2=("fast", {})), result("c2", "fast")],
            *[*message("u", "are you there?", role="user"), result("c1", "slow")],
        ],
        [
            *[user("both"), assistant("", c1=("slow", "{}"), c2=("fast", "{}"))],
            *[answer("c1", "slow"), answer("c2", "fast"), user("are you there?")],
        ],
    ),
    "B007 a free call beside a gated one": (
        [
            *[said("go"), *calling("m", c1=("clean", {}), c2=("diag", {})), gate("c1", "clean", {})],
            *[result("c2", "cpu 12%"), *granted("c1"), result("c1", "cleaned")],
        ],
        [
            *[user("go"), assistant("", c1=("clean", "{}"), c2=("diag", "{}"))],
            *[answer("c1", "cleaned"), answer("c2", "cpu 12%")],
        ],
    ),
    "B008 one call of a batch is denied": (
        [
            *[said("go"), *calling("m", **BATCH), gate("rm", "rm", {"p": "a"}), gate("mv", "mv", {"p": "b"})],
            *[
                result("ls", "x y"),
                tool("TOOL_APPROVAL_DENIED", "rm", reason="wrong folder"),
                result("rm", DENIED),
            ],
            *[
                *granted("mv"),
                result("mv", "moved"),
                tool("TOOL_APPROVAL_GRANTED", "rm"),
                result("rm", "removed"),
            ],
        ],
        [
            *[user("go"), assistant("", rm=("rm", '{"p": "a"}'), mv=("mv", '{"p": "b"}'), ls=("ls", "{}"))],
            *[answer("rm", DENIED), answer("mv", "moved"), answer("ls", "x y")],
        ],
    ),
    "B011 new text while an approval is open": (
        [
            said("pay"),
            *calling("m", c1=("pay", {"eur": 5})),
            gate("c1", "pay", {"eur": 5}),
            said("yes do it"),
        ],
        [user("pay"), assistant("", c1=("pay", '{"eur": 5}')), answer("c1", INTERRUPTED), user("yes do it")],
    ),
    "B014 a streamed message cut off by a crash": (
        [
            *[said("explain"), *message("m2", "The answer ", "has two parts: ", "first", end=False)],
            *[("SESSION_ERROR", {"message": "gone", "code": "interrupted"}), said("go on")],
            ("MESSAGE_DELTA", {"message_id": "m2", "delta": {"type": "text", "text": " too late"}}),
        ],
        [user("explain"), assistant("The answer has two parts: first"), user(STITCH), user("go on")],
    ),
    "B035 a character split over two deltas, and half a character": (
        [
            *[
                said("show"),
                *message("m1", "smile ", "\ud83d", "\ude00"),
                *calling("m2", c1=("cat", {"f": "x"})),
            ],
            *[result("c1", "caf\udce9"), *message("m3", "done")],
        ],
        [
            *[user("show"), assistant("smile 😀"), assistant("", c1=("cat", '{"f": "x"}'))],
            *[answer("c1", "caf\ufffd"), assistant("done")],
        ],
    ),
    "B046 a compaction inside a batch of parallel calls": (
        [
            *[said("q"), *calling("m", A=("t", {"n": 1}), B=("t", {"n": 2})), result("A", "ra")],
            *[compacted(SUMMARY), result("B", "rb"), *message("m3", "done")],
        ],
        [SUMMARY, assistant("", B=("t", '{"n": 2}')), answer("B", "rb"), assistant("done")],
    ),
    "B047 a compaction while an approval is open": (
        [
            *[said("pay now"), *calling("m", c1=("pay", {"eur": 5})), gate("c1", "pay", {"eur": 5})],
            *[compacted(SUMMARY), *granted("c1"), result("c1", "paid")],
        ],
        [SUMMARY, assistant("", c1=("pay", '{"eur": 5}')), answer("c1", "paid")],
    ),
    "B064 blank arguments": (
        [said("ping"), *calling("m", c1=("ping", "")), result("c1", "pong"), *message("n", "ok")],
        [user("ping"), assistant("", c1=("ping", "{}")), answer("c1", "pong"), assistant("ok")],
    ),
    "B065 arguments that are not JSON": (
        [said("list"), *calling("m", c1=("bash", '{"command": "ls')), result("c1", "not JSON"), said("next")],
        [
            *[user("list"), assistant("", c1=("bash", '{"_raw": "{\\"command\\": \\"ls"}'))],
            *[answer("c1", "not JSON"), user("next")],
        ],
    ),
    "B071 a tool name that providers refuse": (
        [said("scan"), *calling("m", c1=("Docker scan", {})), result("c1", "ok")],
        [
            user("scan"),
            assistant("", c1=(wire_names(["Docker scan"])["Docker scan"], "{}")),
            answer("c1", "ok"),
        ],
    ),
}
each_scenario = pytest.mark.parametrize("name", SCENARIOS)


@each_scenario
def test_the_provider_gets_what_is_right(journal: Callable[..., list[Envelope]], name: str) -> None:
    rows, expected = SCENARIOS[name]
    sent = provider_messages(fold(journal(*rows)).messages())
    assert sent == expected
    assert provider_problems(sent) == []


@each_scenario
def test_a_naive_fold_fails_the_scenario(name: str) -> None:
    rows, expected = SCENARIOS[name]
    assert naive(rows) != expected


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name[:4] != "B014"])
def test_what_the_naive_fold_gives_would_be_refused(name: str) -> None:
    """All but the cut-off message, which is acceptable in form and wrong in meaning."""
    assert provider_problems(naive(SCENARIOS[name][0])) != []


def naive(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows to messages one by one, in the order of the journal."""
    messages: list[dict[str, Any]] = []
    open_messages: dict[str, dict[str, Any]] = {}
    for kind, payload in rows:
        if kind == "INVOCATION_STARTED" and payload["reason"]["kind"] == "user_message":
            messages.append(user(payload["reason"]["input"]))
        elif kind == "MESSAGE_START":
            open_messages[payload["message_id"]] = {"role": payload["role"], "content": ""}
            messages.append(open_messages[payload["message_id"]])
        elif kind == "MESSAGE_DELTA":
            open_messages[payload["message_id"]]["content"] += payload["delta"]["text"]
        elif kind == "TOOL_CALL":
            value = payload["arguments"]
            arguments = value if isinstance(value, str) else json.dumps(value)
            made = assistant("", **{payload["tool_call_id"]: (payload["name"], arguments)})["tool_calls"]
            messages[-1].setdefault("tool_calls", []).extend(made)
        elif kind == "TOOL_RESULT":
            messages.append(answer(payload["tool_call_id"], payload["result"]))
        elif kind == "TRANSCRIPT_COMPACTED":
            messages = list(payload["messages"])
    return messages


def test_after_one_denial_the_other_approval_still_waits_and_nothing_can_be_sent(journal: Any) -> None:
    rows = journal(*SCENARIOS["B008 one call of a batch is denied"][0][:-5])
    waits = Waits()
    for row in rows:
        waits.apply(row)
    assert [wait.id for wait in waits.open] == ["mv"]
    assert [call["tool_call_id"] for call in fold(rows).pending_tool_calls] == ["mv"]
    with pytest.raises(PendingCalls):
        provider_messages(fold(rows).messages())


def test_free_text_is_no_approval(journal: Any) -> None:
    view = fold(journal(*SCENARIOS["B011 new text while an approval is open"][0]))
    assert view.pending_tool_call is None


def test_an_open_approval_is_listed_with_name_and_exact_arguments_from_the_journal_alone(
    journal: Any,
) -> None:
    rows = journal(*SCENARIOS["B011 new text while an approval is open"][0][:-1])
    assert fold(rows).pending_tool_call == {"tool_call_id": "c1", "name": "pay", "arguments": {"eur": 5}}


def test_a_compaction_keeps_the_open_approval_with_its_arguments(journal: Any) -> None:
    rows = journal(*SCENARIOS["B047 a compaction while an approval is open"][0][:-3])
    assert fold(rows).pending_tool_call == {"tool_call_id": "c1", "name": "pay", "arguments": {"eur": 5}}


@pytest.mark.parametrize("cut", range(8))
def test_a_compaction_at_any_position_of_a_batch_is_acceptable_once_the_calls_are_answered(
    journal: Any, cut: int
) -> None:
    rows = [said("q"), *calling("m", A=("t", {}), B=("t", {})), result("A", "ra"), result("B", "rb")]
    late = [row for row in rows[cut:] if row[0] == "TOOL_RESULT"]
    sent = provider_messages(
        fold(journal(*rows[:cut], compacted(SUMMARY), *rows[cut:], *message("n", "done"))).messages()
    )
    assert provider_problems(sent) == []
    assert sent[0] == SUMMARY
    assert [row["content"] for row in sent if row["role"] == "tool"] == [row[1]["result"] for row in late]


def test_raw_arguments_stay_as_the_model_wrote_them_in_the_canonical_history(journal: Any) -> None:
    rows = journal(*SCENARIOS["B065 arguments that are not JSON"][0])
    assert fold(rows).messages()[1]["tool_calls"][0]["function"]["arguments"] == '{"command": "ls'
