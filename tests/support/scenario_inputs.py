"""The inputs of the failure scenarios as facts of ours, and the places they happen in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from segue.events import (
    Event,
    InvocationStarted,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    ToolCall,
    ToolResult,
)
from segue.journal import Journal
from segue.stores.protocol import Store

FOLDER = Path(__file__).parents[1] / "integration" / "stores" / "inputs"


def facts(name: str) -> list[Event]:
    """The facts of an input file. What is no row of it, a cut or a damaged line, is left out."""
    data = (FOLDER / name).read_bytes()
    rows = []
    for line in data.split(b"\n"):
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return [fact for row in rows for fact in _fact(row["type"], row["data"])]


def _fact(kind: str, data: dict[str, Any]) -> Iterator[Event]:
    match kind:
        case "INVOCATION_STARTED":
            reason = {"kind": "user_message", "input": "hello"}
            yield InvocationStarted(invocation_id=data["invocation_id"], turn_id="t1", reason=reason)
        case "MESSAGE_START":
            yield MessageStart(message_id=data["message_id"], role=data["role"])
        case "MESSAGE_DELTA":
            yield MessageDelta(message_id=data["message_id"], delta={"type": "text", "text": data["text"]})
        case "MESSAGE_END":
            yield MessageEnd(message_id=data["message_id"])
        case "TOOL_CALL":
            arguments = json.loads(data["arguments"])
            yield ToolCall(tool_call_id=data["tool_call_id"], name=data["name"], arguments=arguments)
        case "TOOL_RESULT":
            yield ToolResult(tool_call_id=data["tool_call_id"], result=data["content"])
        case "NO_MORE_ACTIONS":
            yield NoMoreActions(turn_id="t1")


def written(store: Store, *events: Event, session_id: str = "s1") -> Journal:
    """A session with these facts, an append each."""
    store.create(session_id)
    journal = Journal(store, session_id)
    lease = journal.acquire(holder="test")
    for event in events:
        journal.append(event, lease=lease)
    journal.release(lease)
    return journal


@contextmanager
def small_disk(path: Path, size: str = "1m") -> Iterator[Path]:
    """A file system of that size, mounted on a new folder."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
