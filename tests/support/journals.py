"""Journals as wild as they come: small pools of ids make reuse, late rows and crashes frequent."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from segue.events import EVENT_TYPES, Envelope

message_ids = st.sampled_from(["m", "n", "o"])
call_ids = st.sampled_from(["a", "b", "c"])
node_ids = st.sampled_from(["a", "x", "y"])
texts = st.sampled_from(["", "one ", "two", "\ud83d", "\ude00", "é"])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**100) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(["f", "a b", "天気", "a.b"])


def row(event_type: str, /, **payload: Any) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(event_type), st.fixed_dictionaries(payload))


def invocation(*kinds: str) -> st.SearchStrategy[tuple[str, Any]]:
    reason = st.fixed_dictionaries({"kind": st.sampled_from(kinds), "input": texts | json_values})
    return row("INVOCATION_STARTED", turn_id=st.sampled_from(["t", "u"]), reason=reason)


arguments = st.sampled_from(["", "{}", "null", '{"a": NaN}', "not json"]) | json_values
callers = st.sampled_from(["", "", "", "x"])
called = {"tool_call_id": call_ids, "name": names, "arguments": arguments, "called_by": callers}
deltas = st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning"]), "text": texts}) | json_values
roles = st.sampled_from(["assistant", "assistant", "user", "system", "developer", "tool", 5])

snapshot_calls = st.lists(
    st.builds(
        lambda call_id, name: {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": "{}"},
        },
        call_ids,
        names,
    ),
    max_size=3,
)
snapshot_messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": texts}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": texts, "tool_calls": snapshot_calls}),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": call_ids, "content": texts}),
    json_values,
)

spoilt = st.tuples(
    st.sampled_from(sorted(EVENT_TYPES)),
    st.dictionaries(
        st.sampled_from(
            ["message_id", "delta", "tool_call_id", "result", "reason", "messages", "called_by", "node_id"]
        ),
        json_values,
    )
    | json_values,
)
rows = st.one_of(
    invocation("user_message", "direct_call"),
    invocation("approval_decision", "recovery", "question_answer"),
    row("MESSAGE_START", message_id=message_ids, role=roles),
    row("MESSAGE_DELTA", message_id=message_ids, delta=deltas),
    row("MESSAGE_END", message_id=message_ids, framework_state=st.none() | json_values),
    row("TOOL_CALL", **called),
    row("TOOL_CALL", **called),
    row("TOOL_STARTED", tool_call_id=call_ids, called_by=callers),
    row("TOOL_RESULT", tool_call_id=call_ids, result=texts | json_values),
    row("TOOL_RESULT", tool_call_id=call_ids, result=texts | json_values, called_by=callers),
    row("TOOL_APPROVAL_REQUIRED", **called),
    row("TOOL_APPROVAL_GRANTED", tool_call_id=call_ids),
    row("SESSION_ERROR", message=texts, code=st.sampled_from(["", "interrupted"])),
    row("NO_MORE_ACTIONS", turn_id=st.sampled_from(["", "t"])),
    row(
        "CALL_STARTED",
        node_id=node_ids,
        kind=st.just("function"),
        name=names,
        called_by=st.just("") | node_ids,
    ),
    row("CALL_STARTED", node_id=node_ids, attempt=st.integers(1, 3), arguments=json_values),
    row(
        "CALL_ENDED",
        node_id=node_ids,
        status=st.sampled_from(["completed", "interrupted"]),
        result=json_values,
    ),
    row("QUESTION_ASKED", question_id=call_ids, question=texts),
    row("QUESTION_ANSWERED", question_id=call_ids, answer=texts),
    row("TURN_SUSPENDED", turn_id=st.sampled_from(["t", "u"]), waits=st.lists(call_ids, max_size=2)),
    row("TURN_CANCELLED", turn_id=st.sampled_from(["", "t", "u"])),
    row("TURN_SUBMITTED", client_id=texts, turn_id=st.sampled_from(["t", "u", "m"]), reason=json_values),
    row("CANCEL_REQUESTED", turn_id=st.sampled_from(["", "t", "u"])),
    row("ERROR", message=texts),
    row("TRANSCRIPT_COMPACTED", messages=st.lists(snapshot_messages, max_size=4)),
    spoilt,
)


def envelopes(pairs: list[tuple[str, Any]]) -> list[Envelope]:
    return [
        Envelope(f"evt_{seq}", "ses", "dep", seq, kind, payload, "")
        for seq, (kind, payload) in enumerate(pairs, 1)
    ]


def said(text: str) -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"turn_id": "t", "reason": {"kind": "user_message", "input": text}})


START, END = ("MESSAGE_START", {"message_id": "m"}), ("MESSAGE_END", {"message_id": "m"})
CHUNK = ("MESSAGE_DELTA", {"message_id": "m", "delta": {"type": "image"}})
CALL = ("TOOL_CALL", {"tool_call_id": "a", "name": "f", "arguments": {}})
APPROVAL = ("TOOL_APPROVAL_REQUIRED", {"tool_call_id": "a", "name": "f", "arguments": {}})
passages = st.sampled_from(
    [
        [said("hi"), START, ("SESSION_ERROR", {"message": "gone"})],
        [said("go on"), START, END],
        [said("look"), START, CHUNK, CHUNK],
        [said("do"), START, CALL, END],
        [said("pay"), CALL, APPROVAL],
        [CALL, ("TOOL_RESULT", {"tool_call_id": "a", "result": "r"})],
    ]
)
"""What a wild mixture of rows seldom has in this order."""

fragments = st.lists(passages | st.lists(rows, max_size=6), max_size=8)
any_journal = fragments.map(lambda parts: envelopes([row for part in parts for row in part]))
journals = any_journal.map(lambda journal: [row for row in journal if row.type != "HEAD_MOVED"])
