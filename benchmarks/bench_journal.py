"""What a fact costs on its way to a line and back, beside the standard library's json on the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from harness import Row, paired

from segue import ids
from segue.events import (
    CallEnded,
    CallStarted,
    Event,
    MessageDelta,
    MessageEnd,
    MessageStart,
    ToolCall,
    ToolResult,
)
from segue.events.codec import decode_event, decode_row, encode_payload, row_bytes
from segue.events.json_values import to_json
from segue.journal import Journal
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft

TEXT = "The next part of the answer, some tokens long. "


def turn(number: int) -> list[Event]:
    """50 facts of a typical turn: one tool call, one model call, a streamed answer."""
    message, call, node = f"msg_{number}", f"call_{number}", f"node_{number}"
    arguments = {"path": "src/app.py", "lines": [1, 40], "options": {"numbered": True, "limit": None}}
    usage = {"input_tokens": 900, "output_tokens": 80}
    return [
        CallStarted(node_id=node, kind="model", name="model", arguments=arguments, turn_id="turn_1"),
        ToolCall(tool_call_id=call, name="read_file", arguments=arguments),
        ToolResult(tool_call_id=call, result={"text": TEXT * 10, "ok": True, "size": 470.5}),
        MessageStart(message_id=message),
        *[MessageDelta(message_id=message, delta={"type": "text", "text": TEXT}) for _ in range(44)],
        MessageEnd(message_id=message, finish_reason="stop"),
        CallEnded(node_id=node, status="completed", usage=usage),
    ]


def run(quick: bool) -> list[Row]:
    events = [event for number in range(4 if quick else 40) for event in turn(number)]
    rounds = 5 if quick else 15
    lines = encode(events)
    objects = [json.loads(line) for line in lines]
    values = [row["payload"] for row in objects]

    def measure(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], budget: float | None) -> Row:
        ratio = paired(ours, theirs, rounds)
        return Row(f"journal: {name}", ratio, budget, f"{len(events)} rows, beside stdlib json")

    def dumps() -> list[str]:
        return [json.dumps(row) for row in objects]

    def loads() -> list[Any]:
        return [json.loads(line) for line in lines]

    def typed() -> list[Event]:
        return [decode_event(decode_row(line)) for line in lines]

    return [
        measure("encode, checked by reading back", lambda: encode(events), dumps, 1.0),
        measure("cold decode to envelopes", lambda: [decode_row(line) for line in lines], loads, 0.5),
        measure("cold decode to typed facts", typed, loads, None),
        measure("to_json of plain values", lambda: [to_json(value) for value in values], dumps, 1.0),
        measure("append in memory, one call a row", lambda: append(events), dumps, None),
    ]


def encode(events: list[Event]) -> list[bytes]:
    now, identity = ids.utc_now(), "evt_0123456789abcdef"
    drafts = (Draft(identity, "local", event.TYPE, encode_payload(event), now) for event in events)
    return [row_bytes("chat_1", seq, draft) for seq, draft in enumerate(drafts, 1)]


def append(events: list[Event]) -> None:
    store = MemoryStore()
    store.create("chat_1")
    journal = Journal(store, "chat_1")
    lease = journal.acquire(holder="benchmark")
    for event in events:
        journal.append(event, lease=lease)
