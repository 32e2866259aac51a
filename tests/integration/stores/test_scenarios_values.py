"""Values that break other software's sessions: NUL, lone surrogates, what is not JSON, and what is too large.

Each is given as a tool's result, a function's, and as a fact that is appended to the journal.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pydantic
import pytest
from scenario_inputs import facts, written

import segue
from segue.events import ToolCall, ToolResult
from segue.events.codec import encode_row
from segue.events.json_values import to_json
from segue.fold import provider_messages
from segue.fold.conversation import Conversation
from segue.journal import whole_value
from segue.models.scripted import Scripted
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.git import GitStore
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Store


@pytest.fixture(params=["memory", "git"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else GitStore(tmp_path / "sessions")
    with closing(opened):
        yield opened


# --- B034 -------------------------------------------------------------------------------------------------------------

NULS: list[Any] = ["a\x00b", {"k\x00": ["\x00"]}, "literal \\u0000 text"]


def test_b034_nul_characters_are_read_back_as_they_were_from_every_store(tmp_path: Path) -> None:
    read = []
    with closing(GitStore(tmp_path / "sessions")) as git, closing(MemoryStore()) as memory:
        for store in (git, memory):
            results = [ToolResult(tool_call_id="c", result=value) for value in NULS]
            calls = [ToolCall(tool_call_id="c", name="t", arguments=value) for value in NULS]
            journal = written(store, *calls, *results)
            read.append([row.payload for row in journal.read()])
    assert read[0] == read[1]
    assert [row["arguments"] for row in read[0][:3]] == NULS
    assert [row["result"] for row in read[0][3:]] == NULS


def test_b034_a_literal_escape_stays_literal_on_disk(tmp_path: Path) -> None:
    with closing(GitStore(tmp_path / "sessions")) as store:
        written(store, *(ToolResult(tool_call_id="c", result=value) for value in NULS))
        lines = list(store.read_lines("s1"))
    assert b'"result":"a\\u0000b"' in lines[0]
    assert b'"result":"literal \\\\u0000 text"' in lines[2]


# --- B035 -------------------------------------------------------------------------------------------------------------


def test_b035_halves_of_an_emoji_join_and_a_loner_is_replaced_for_the_model(store: Store) -> None:
    journal = written(store, *facts("B035.jsonl"))
    messages = journal.view(Conversation).messages()
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    assert replies[0] == "smile \U0001f600"
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["caf\udce9"]
    sent = provider_messages(messages, "openai")
    assert [message["content"] for message in sent if message["role"] == "tool"] == ["caf\ufffd"]
    json.dumps(sent, ensure_ascii=False).encode()


def test_b035_every_row_is_kept_to_the_byte(store: Store) -> None:
    events = facts("B035.jsonl")
    journal = written(store, *events)
    assert [row.payload for row in journal.read()][12] == {"tool_call_id": "c1", "result": "caf\udce9"}
    assert [encode_row(row) for row in journal.read()] == list(store.read_lines("s1"))


def test_b035_bytes_of_a_tool_are_kept_reversibly(store: Store) -> None:
    value = to_json(b"caf\xe9\xff")
    journal = written(store, ToolResult(tool_call_id="c", result=value))
    assert next(journal.read()).payload["result"] == {"$bytes": "Y2Fm6f8="}


@pytest.mark.parametrize("command", [["show", "s1"], ["show", "s1", "--json"], ["graph", "s1"], ["list"]])
def test_b035_the_program_shows_such_a_session(home: Path, command: list[str]) -> None:
    with closing(GitStore(home / "sessions")) as store:
        written(store, *facts("B035.jsonl"))
    done = subprocess.run(
        [sys.executable, "-m", "segue", "sessions", *command], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    done.stdout.decode()


# --- B036 -------------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float


class Model(pydantic.BaseModel):
    when: datetime


class Evil:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
VALUES: dict[str, tuple[Any, Any]] = {
    "nan": (math.nan, "NaN"),
    "infinity": ({"x": math.inf}, {"x": "Infinity"}),
    "aware datetime": (NOON, "2024-01-01T12:00:00+00:00"),
    "naive datetime": (datetime(2024, 1, 1), "2024-01-01T00:00:00"),
    "date": (date(2024, 1, 1), "2024-01-01"),
    "timedelta": (timedelta(seconds=90), "PT90S"),
    "decimal": (Decimal("0.10"), "0.10"),
    "uuid": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "bytes": (b"\xff\x00", {"$bytes": "/wA="}),
    "path": (Path("/a"), "/a"),
    "enum": (Colour.RED, "red"),
    "dataclass": (Point(1, 0.5), {"x": 1, "y": 0.5}),
    "pydantic": (Model(when=NOON), {"when": "2024-01-01T12:00:00+00:00"}),
    "set": ({3, 1, 2}, [1, 2, 3]),
    "colliding keys": ({1: "a", "1": "b"}, {"$pairs": [[1, "a"], ["1", "b"]]}),
    "tuple keys": ({("a", "b"): 1}, {'["a","b"]': 1}),
    "evil": (Evil(), "<Evil: its repr raised RuntimeError>"),
    "cycle": (CYCLE, [{"$cycle": 1}]),
    "exception": (ValueError("no"), {"type": "ValueError", "message": "no"}),
}


def strict(payload: Any) -> Any:
    return json.loads(json.dumps(payload, allow_nan=False))


@pytest.mark.parametrize("name", VALUES)
def test_b036_every_value_is_exactly_one_result_of_strict_json(store: Store, name: str) -> None:
    value, expected = VALUES[name]
    journal = written(store, ToolResult(tool_call_id="c", result=to_json(value)))
    (row,) = journal.read()
    assert strict(row.payload) == {"tool_call_id": "c", "result": expected}


@pytest.mark.parametrize("name", VALUES)
def test_b036_a_function_that_returns_it_completes_with_that_result(store: Store, name: str) -> None:
    value, expected = VALUES[name]

    @segue.agentic_function
    def gives() -> Any:
        return value

    db = SessionDB(store)
    with segue.session_context("s1", db=db):
        assert gives() is value
    ended = [row.payload for row in db.read("s1") if row.type == "CALL_ENDED"]
    assert [(row["status"], strict(row["result"])) for row in ended] == [("completed", expected)]


@pytest.mark.parametrize("name", VALUES)
def test_b036_a_tool_that_returns_it_is_answered_once_and_the_turn_goes_on(store: Store, name: str) -> None:
    value, expected = VALUES[name]

    def t() -> Any:
        """Give it."""
        return value

    model = Scripted([{"tool_calls": [{"name": "t", "arguments": {}}]}, "ok"])
    db = SessionDB(store)
    with segue.session_context("s1", db=db, runtime=Runtime(model)) as session:
        assert session.runtime is not None
        assert session.runtime.exec("x", tools=[t]) == "ok"
    results = [row.payload for row in db.read("s1") if row.type == "TOOL_RESULT"]
    assert [strict(row["result"]) for row in results] == [expected]
    assert "is_error" not in results[0]


@pytest.mark.parametrize("value", [NoText(), 10**10_001, [[]] * 2], ids=["no text", "digits", "shared"])
def test_b036_a_value_that_cannot_be_recorded_loses_neither_the_result_nor_the_turn(
    store: Store, value: Any
) -> None:
    @segue.agentic_function
    def gives() -> Any:
        return value

    db = SessionDB(store)
    with segue.session_context("s1", db=db):
        assert gives() is value
    ended = [row.payload for row in db.read("s1") if row.type == "CALL_ENDED"]
    assert [row["status"] for row in ended] == ["completed"]
    assert strict(ended[0]["result"]) is not None
    last = db.turns("s1").last
    assert last is not None
    assert last.status == "completed"


# --- B038 -------------------------------------------------------------------------------------------------------------

MEGABYTE = 1_000_000


def test_b038_a_large_result_is_shortened_in_its_row_and_whole_in_a_blob(store: Store) -> None:
    value = "begin" + "x" * MEGABYTE + "end"
    journal = written(store, ToolResult(tool_call_id="c", result=value))
    (row,) = journal.read()
    shown = row.payload["result"]
    assert (shown.startswith("begin"), shown.endswith("end"), len(shown) < 40_000) == (True, True, True)
    assert (
        f"[... {len(value) - 32_000:,} characters left out; kept whole, {len(value) + 2:,} bytes of JSON"
        in shown
    )
    assert whole_value(store, "s1", row.payload) == value


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"n": n, "text": "é\udce9\0"} for n in range(20_000)]},
        "\U0001f600" * 400_000,
        ["x" * MEGABYTE],
    ],
)
def test_b038_any_large_value_can_be_read_back_whole(store: Store, value: Any) -> None:
    journal = written(store, ToolResult(tool_call_id="c", result=value))
    (row,) = journal.read()
    assert type(row.payload["result"]) is str
    assert whole_value(store, "s1", row.payload) == value


def test_b038_a_small_value_has_no_blob(store: Store) -> None:
    journal = written(store, ToolResult(tool_call_id="c", result={"n": 1}))
    (row,) = journal.read()
    assert (row.payload, whole_value(store, "s1", row.payload)) == (
        {"tool_call_id": "c", "result": {"n": 1}},
        {"n": 1},
    )


def test_b038_a_functions_large_result_and_the_reply_are_shortened_alike(store: Store) -> None:
    value = "é" * MEGABYTE

    @segue.agentic_function
    def big() -> str:
        return value

    db = SessionDB(store)
    with segue.session_context("s1", db=db):
        assert big() == value
    rows = {row.type: row.payload for row in db.read("s1")}
    assert rows["CALL_ENDED"]["whole"] == rows["MESSAGE_DELTA"]["whole"]
    assert whole_value(store, "s1", rows["MESSAGE_DELTA"]) == value
    assert [
        len(message["content"]) < 200_000 for message in db.journal("s1").view(Conversation).messages()
    ] == [True] * 2


def test_b038_many_large_results_cost_little_to_resume(store: Store) -> None:
    journal = written(
        store, *(ToolResult(tool_call_id=f"c{n}", result=f"{n} " + "x" * MEGABYTE) for n in range(50))
    )
    assert sum(len(line) for line in store.read_lines("s1")) < 50 * 40_000
    assert len(list(journal.read())) == 50


def test_b038_a_blob_that_cannot_be_kept_refuses_the_row(tmp_path: Path) -> None:
    with closing(GitStore(tmp_path / "sessions")) as store:
        journal = written(store)
        (tmp_path / "sessions" / "s1" / "files").rmdir()
        (tmp_path / "sessions" / "s1" / "files").write_text("in the way")
        lease = journal.acquire(holder="test")
        with pytest.raises(segue.errors.StorageError, match="files"):
            journal.append(ToolResult(tool_call_id="c", result="x" * MEGABYTE), lease=lease)
        assert journal.last_seq == 0


PRODUCE = """
import segue
from segue.models.scripted import Scripted
from segue.session.runtime import Runtime

def big() -> str:
    "Give much."
    return "x" * 200_000_000

@segue.agentic_function
def work(runtime=None) -> str:
    "Work."
    runtime.exec("x", tools=[big])
    return "y" * 200_000_000

model = Scripted([{"tool_calls": [{"name": "big", "arguments": {}}]}, "ok"])
value = work.run(session_id="s1", runtime=Runtime(model)).value
print(len(value), len(model.requests[-1].messages[-1]["content"]))
"""
RESUME = """
import resource, sys
import segue
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph

db = segue.default_db()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
messages = db.journal("s1").view(Conversation).messages()
graph = db.journal("s1").view(CallGraph)
listed = db.list_sessions()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, max(len(message["content"]) for message in messages), len(graph), len(listed))
"""


def program(text: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300
    )
    return [int(word) for word in done.stdout.split()]


def test_b038_200_million_characters_make_a_small_journal_and_little_memory_to_resume(home: Path) -> None:
    returned, sent = program(PRODUCE)
    assert (returned, sent < 200_000) == (200_000_000, True)
    journal = sum(path.stat().st_size for path in (home / "sessions" / "s1" / "history").iterdir())
    memory, longest, nodes, listed = program(RESUME)
    assert (journal < 5_000_000, memory < 150_000_000, longest < 200_000) == (True, True, True)
    assert (nodes, listed) == (4, 1)


FOREIGN = """
import resource, sys
from segue.fold.conversation import Conversation
from segue.stores.git import GitStore

store = GitStore(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = [len(row.payload["result"]) for row in store.read("s1")]
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, *rows)
"""


def test_b038_one_huge_line_of_a_foreign_journal_is_read_in_five_times_its_size(tmp_path: Path) -> None:
    size = 60 * MEGABYTE
    row = ToolResult(tool_call_id="c", result="small")
    with closing(GitStore(tmp_path / "sessions", commits=False)) as store:
        written(store, row)
        line = next(store.read_lines("s1")).replace(b'"small"', b'"%s"' % (b"x" * size))
    (tmp_path / "sessions" / "s1" / "history" / f"{1:012d}.jsonl").write_bytes(line + b"\n")
    (tmp_path / "sessions" / "s1" / "acknowledged").unlink()
    command = [sys.executable, "-c", FOREIGN, str(tmp_path / "sessions")]
    memory, length = map(
        int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    )
    assert (length, memory < 5 * size) == (size, True)


STARVED = """
import resource, sys
from segue.errors import SegueError
from segue.stores.git import GitStore

store = GitStore(sys.argv[1])
limit = int(open("/proc/self/statm").read().split()[0]) * 4096 + 100_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(len(list(store.read("s1"))))
except SegueError as error:
    print(type(error).__name__, error)
"""


def test_b038_too_little_memory_is_never_no_session(tmp_path: Path) -> None:
    row = ToolResult(tool_call_id="c", result="small")
    with closing(GitStore(tmp_path / "sessions", commits=False)) as store:
        written(store, row)
        line = next(store.read_lines("s1")).replace(b'"small"', b'"%s"' % (b"x" * 90 * MEGABYTE))
    (tmp_path / "sessions" / "s1" / "history" / f"{1:012d}.jsonl").write_bytes(line + b"\n")
    (tmp_path / "sessions" / "s1" / "acknowledged").unlink()
    command = [sys.executable, "-c", STARVED, str(tmp_path / "sessions")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("StorageError cannot read"), done.stderr
    assert "not enough memory" in done.stdout
