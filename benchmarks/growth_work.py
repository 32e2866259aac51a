"""The work of the growth benchmark: one turn of 50 events, the same for every system, and a plain fold of its rows."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

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

APPENDS = (8, 10, 30, 50)
"""Where the four appends of a turn end: the call of a tool, its result, half of the answer, the end."""
MESSAGES = 4
"""Messages a turn adds: the question, the call, its result, the answer."""
_VOCABULARY = [
    "".join(random.Random(seed).choices("etaoinshrdlucmfwypvbgk", k=2 + seed % 9)) for seed in range(3000)
]

Message = dict[str, Any]


class Turn:
    """One turn, in each form that a system takes it in. Its text is random words, so it packs no better than prose."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._random = random.Random(number)
        self.events = self._events()
        self.rows = [{"type": event.TYPE, "payload": msgspec.to_builtins(event)} for event in self.events]
        self.items = _items(folded(self.rows))

    def appends(self) -> list[list[Event]]:
        return [self.events[start:end] for start, end in zip((0, *APPENDS), APPENDS, strict=False)]

    def row_appends(self) -> list[list[dict[str, Any]]]:
        return [self.rows[start:end] for start, end in zip((0, *APPENDS), APPENDS, strict=False)]

    def _events(self) -> list[Event]:
        number = self.number
        arguments = {"path": "src/app.py", "lines": [1, 40], "options": {"numbered": True, "limit": None}}
        return [
            InvocationStarted(
                invocation_id=f"inv_{number}",
                turn_id=f"turn_{number}",
                reason={"kind": "user_message", "input": self._words(12)},
                source="cli",
            ),
            *self._message(f"msg_{number}a", 3),
            ToolCall(tool_call_id=f"call_{number}", name="read_file", arguments=arguments),
            ToolStarted(tool_call_id=f"call_{number}", idempotency_key=f"call_{number}-1"),
            ToolResult(tool_call_id=f"call_{number}", result=self._words(80)),
            *self._message(f"msg_{number}b", 38),
            NoMoreActions(turn_id=f"turn_{number}"),
        ]

    def _message(self, message: str, deltas: int) -> list[Event]:
        text = [
            MessageDelta(message_id=message, delta={"type": "text", "text": self._words(7)})
            for _ in range(deltas)
        ]
        return [
            MessageStart(message_id=message),
            *text,
            MessageEnd(message_id=message, finish_reason="stop"),
        ]

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(_VOCABULARY, k=count)) + " "


def _items(messages: list[Message]) -> list[Any]:
    """The messages of a turn as the Responses API has them: question, text, call, its result, answer."""
    question, asking, result, answer = messages
    call = asking["tool_calls"][0]
    called = {"type": "function_call", "call_id": call["id"], **call["function"]}
    output = {"type": "function_call_output", "call_id": call["id"], "output": result["content"]}
    return [question, _said(asking["content"]), called, output, _said(answer["content"])]


def _said(text: str) -> Message:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def folded(rows: list[dict[str, Any]]) -> list[Message]:
    """Chat messages from rows, as simply as it can be done: no approval, no crash, no rewind is thought of."""
    messages: list[Message] = []
    for row in rows:
        payload = row["payload"]
        match row["type"]:
            case "MESSAGE_DELTA":
                messages[-1]["content"].append(payload["delta"]["text"])
            case "MESSAGE_START":
                messages.append({"role": "assistant", "content": []})
            case "INVOCATION_STARTED":
                messages.append({"role": "user", "content": [payload["reason"]["input"]]})
            case "TOOL_CALL":
                function = {"name": payload["name"], "arguments": json.dumps(payload["arguments"])}
                call = {"id": payload["tool_call_id"], "type": "function", "function": function}
                messages[-1].setdefault("tool_calls", []).append(call)
            case "TOOL_RESULT":
                result = [payload["result"]]
                messages.append({"role": "tool", "tool_call_id": payload["tool_call_id"], "content": result})
    for message in messages:
        message["content"] = "".join(message["content"])
    return messages
