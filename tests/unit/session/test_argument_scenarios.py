"""Scenarios of kind 9 through a whole exec, on both stores: what models write as arguments, and what becomes of it.

Declaration and binding alone are in tests/unit/tools.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.fold import provider_messages
from segue.fold.conversation import fold
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime
from segue.stores.memory import MemoryStore
from segue.testing.validity import provider_problems
from segue.tools.tool import tool


class Color(enum.Enum):
    RED = "red"


class Desk:
    """Tools that note what ran."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def ping(self) -> str:
        self.ran.append("ping")
        return "pong"

    def greet(self, name: str = "x") -> str:
        self.ran.append(name)
        return f"hello {name}"

    def need(self, a: int) -> int:
        self.ran.append(a)
        return a

    @tool(needs_approval=True)
    def bash(self, command: str) -> str:
        self.ran.append(command)
        return "done"

    def paint(self, color: Color, times: int) -> str:
        self.ran.append((color, times))
        return "painted"

    async def __call__(self, q: int) -> int:
        return q + 2


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(params=["memory", "git"])
def db(request: pytest.FixtureRequest, home: Path) -> Iterator[SessionDB]:
    opened = default_db() if request.param == "git" else SessionDB(MemoryStore())
    yield opened
    opened.close()


def ask(db: SessionDB, tools: list[Any], name: str, arguments: Any) -> Scripted:
    """One exec in which the model makes this call and then answers."""
    model = Scripted([{"tool_calls": [{"name": name, "arguments": arguments}]}, "All right."])
    with session_context("s", db=db, runtime=Runtime(model)) as session:
        assert session.runtime is not None
        assert session.runtime.exec("please", tools=tools) == "All right."
    return model


def sent_back(model: Scripted) -> tuple[str, str]:
    """The arguments of the call and its result, as the next request has them; the request is one that is accepted."""
    messages = model.requests[1].messages
    assert provider_problems(messages) == []
    [call] = [call for message in messages for call in message.get("tool_calls", [])]
    [result] = [message["content"] for message in messages if message["role"] == "tool"]
    return call["function"]["arguments"], result


def rows(db: SessionDB, kind: str) -> list[dict[str, Any]]:
    return [row.payload for row in db.read("s") if row.type == kind]


@pytest.mark.parametrize("arguments", ["", " ", "null", "{}"])
def test_b064_a_tool_without_required_parameters_runs_without_arguments(
    db: SessionDB, desk: Desk, arguments: str
) -> None:
    assert sent_back(ask(db, [desk.ping, desk.greet], "greet", arguments)) == ("{}", "hello x")
    assert sent_back(ask(db, [desk.ping], "ping", arguments))[1:] == ("pong",)
    assert desk.ran == ["x", "ping"]


@pytest.mark.parametrize("arguments", ["", " ", "null", "{}"])
def test_b064_a_missing_argument_is_named_in_the_result(db: SessionDB, desk: Desk, arguments: str) -> None:
    sent, result = sent_back(ask(db, [desk.need], "need", arguments))
    assert (sent, "a: it is missing; expected an integer" in result, desk.ran) == ("{}", True, [])


@pytest.mark.parametrize(
    "arguments",
    [
        '{"command": "ls',
        '{"command": "ls"}{"command": "rm"}',
        '{"command": "ls",}',
        "{'command': 'ls'}",
        '{"command": NaN}',
        "ls " * 350_000,
        '```json\n{"command": "ls"}\n```',
        '{"command": "ls", "command": "rm"}',
        '{"command": "\\ud800"}',
        '{"command": ' + "[" * 5_000,
    ],
    ids=["cut", "two", "comma", "quotes", "NaN", "1 MB", "fence", "twice", "surrogate", "deep"],
)
def test_b065_text_that_is_not_json_runs_nothing_and_poisons_nothing(
    db: SessionDB, desk: Desk, arguments: str
) -> None:
    _, result = sent_back(ask(db, [desk.bash], "bash", arguments))
    assert result.startswith("bash was not run, because its arguments do not fit:")
    assert desk.ran == []
    assert rows(db, "TOOL_APPROVAL_REQUIRED") == rows(db, "TOOL_STARTED") == []
    assert [row["arguments"] for row in rows(db, "TOOL_CALL")] == [arguments]
    assert provider_problems(provider_messages(fold(db.read("s")).messages())) == []


def test_b067_kinds_of_callables_run_with_the_arguments_of_the_model(db: SessionDB, desk: Desk) -> None:
    assert sent_back(ask(db, [desk], "Desk", {"q": 1}))[1] == "3"
    assert sent_back(ask(db, [functools.partial(desk.need, 4)], "need", {}))[1] == "4"


def test_b068_the_function_gets_values_of_its_types(db: SessionDB, desk: Desk) -> None:
    ask(db, [desk.paint], "paint", {"color": "red", "times": "2"})
    assert desk.ran == [(Color.RED, 2)]


def test_b071_a_name_that_no_tool_has_is_told_and_nothing_runs(db: SessionDB, desk: Desk) -> None:
    _, result = sent_back(ask(db, [desk.ping], "pïng", {}))
    assert (result, desk.ran) == ("there is no tool 'pïng'; the tools are: ping", [])
