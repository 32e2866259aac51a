"""The fold beside the standard library's json reading the same rows, in three profiles."""

from __future__ import annotations

import json
from typing import Any

from harness import Row, paired

from segue.events import (
    Event,
    InvocationStarted,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from segue.events.codec import decode_row, encode_payload, row_bytes
from segue.fold.conversation import Conversation
from segue.stores.protocol import Draft

BUDGET = 0.5
WORDS = "The next part of the answer, some tokens long. "


def run(quick: bool) -> list[Row]:
    share = 10 if quick else 1
    return [
        _measure("typical turns of 50 rows", _many(typical, 200 // share), quick),
        _measure("tool-heavy turns", _many(tool_heavy, 200 // share), quick),
        _measure("one message of 100,000 deltas", one_message(100_000 // share), quick),
    ]


def _measure(name: str, events: list[Event], quick: bool) -> Row:
    lines = [row_bytes("s", seq, _draft(event)) for seq, event in enumerate(events, 1)]
    envelopes = [decode_row(line) for line in lines]

    def ours() -> Any:
        view = Conversation()
        for envelope in envelopes:
            view.apply(envelope)
        return view.messages()

    def baseline() -> Any:
        return [json.loads(line) for line in lines]

    ratio = paired(ours, baseline, 5 if quick else 21)
    return Row(f"fold: {name}", ratio, BUDGET, f"{len(lines):,} rows to messages, beside json.loads of them")


def _many(turn: Any, turns: int) -> list[Event]:
    return [event for number in range(turns) for event in turn(number)]


def _started(number: int) -> Event:
    reason = {"kind": "user_message", "input": "What does this do, and is it any good?"}
    return InvocationStarted(
        invocation_id=f"inv_{number}", turn_id=f"turn_{number}", reason=reason, source="cli"
    )


def _message(message: str, deltas: int) -> list[Event]:
    text = [MessageDelta(message_id=message, delta={"type": "text", "text": WORDS}) for _ in range(deltas)]
    return [MessageStart(message_id=message), *text, MessageEnd(message_id=message, finish_reason="stop")]


def _tool(call: str) -> list[Event]:
    arguments = {"path": "src/app.py", "lines": [1, 40], "options": {"numbered": True, "limit": None}}
    result = {"text": WORDS * 10, "ok": True, "size": 470.5}
    return [
        ToolCall(tool_call_id=call, name="read_file", arguments=arguments),
        ToolStarted(tool_call_id=call, idempotency_key=f"{call}-1"),
        ToolResult(tool_call_id=call, result=result),
    ]


def typical(number: int) -> list[Event]:
    """50 rows: a question, a message that calls a tool, its result, a streamed answer."""
    first, last = _message(f"msg_{number}a", 5), _message(f"msg_{number}b", 36)
    return [
        _started(number),
        *first,
        *_tool(f"call_{number}"),
        *last,
        NoMoreActions(turn_id=f"turn_{number}"),
    ]


def tool_heavy(number: int) -> list[Event]:
    """10 tool calls one after the other, each with a short message before it."""
    steps = [[*_message(f"msg_{number}_{at}", 1), *_tool(f"call_{number}_{at}")] for at in range(10)]
    return [
        _started(number),
        *[event for step in steps for event in step],
        NoMoreActions(turn_id=f"turn_{number}"),
    ]


def one_message(deltas: int) -> list[Event]:
    return [_started(0), *_message("msg_0", deltas), NoMoreActions(turn_id="turn_0")]


def _draft(event: Event) -> Draft:
    return Draft(
        "evt_0123456789abcdef", "local", event.TYPE, encode_payload(event), "2026-11-29T21:07:24.000001Z"
    )
