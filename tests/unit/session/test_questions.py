"""Questions with options and schemas: what answers them, and what the program gets."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest

from segue.agents.function import agentic_function
from segue.errors import DefinitionError, InvalidAnswer, Suspended
from segue.handlers.resume import resume
from segue.journal import Journal
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.waits import ask_user
from segue.stores.memory import MemoryStore


@dataclasses.dataclass
class Stay:
    nights: int
    room: Literal["quiet", "large"] = "quiet"

    def __post_init__(self) -> None:
        if self.nights > 30:
            raise ValueError("no more than 30")


@pytest.fixture(params=["git", "memory"])
def either(request: pytest.FixtureRequest) -> SessionDB:
    if request.param == "git":
        git: SessionDB = request.getfixturevalue("db")
        return git
    return SessionDB(MemoryStore())


class Asking:
    """A program that asks one question; what it got."""

    def __init__(self, db: SessionDB, **options: Any) -> None:
        self.db, self.got = db, list[Any]()

        @agentic_function
        def program(topic: str) -> str:
            """Ask."""
            self.got.append(ask_user("Which?", **options))
            return "asked"

        self._program = program
        with pytest.raises(Suspended), session_context("s", db=db):
            program("x")

    @property
    def journal(self) -> Journal:
        return self.db.journal("s")

    def answer(self, value: Any) -> Any:
        [wait] = decisions.open_waits(self.journal)
        decisions.answer(self.journal, wait.id, value)
        resume("s", function=self._program, db=self.db)
        [got] = self.got
        return got

    def refuses(self, value: Any) -> list[str]:
        [wait] = decisions.open_waits(self.journal)
        rows = self.journal.last_seq
        with pytest.raises(InvalidAnswer) as refused:
            decisions.answer(self.journal, wait.id, value)
        assert self.journal.last_seq == rows
        return refused.value.problems


@pytest.mark.parametrize(
    ("schema", "answer", "got"),
    [
        (Stay, {"nights": 2}, Stay(2)),
        (Stay, '{"nights": 2, "room": "large"}', Stay(2, "large")),
        (int, "5", 5),
        (bool, "true", True),
        (str, "5", "5"),
        (list[Stay], [{"nights": 1}], [Stay(1)]),
        ({"type": "integer", "minimum": 3}, 4, 4),
        ({"type": ["string", "null"]}, None, None),
    ],
)
def test_an_answer_comes_back_as_what_was_asked_for(
    either: SessionDB, schema: Any, answer: Any, got: Any
) -> None:
    assert Asking(either, schema=schema).answer(answer) == got


def test_what_does_not_fit_is_refused_with_all_that_is_wrong(either: SessionDB) -> None:
    asking = Asking(either, schema=Stay)
    assert asking.refuses({"nights": "two", "room": "loud"}) == [
        "nights: 'two' is not of type 'integer'",
        "room: 'loud' is not one of ['quiet', 'large']",
    ]
    assert asking.refuses("tomorrow") == ["it: 'tomorrow' is not of type 'object'"]
    assert asking.refuses({}) == ["it: 'nights' is a required property"]
    assert asking.answer({"nights": 3}) == Stay(3)


def test_a_json_schema_decides_and_nothing_is_fetched_for_it(either: SessionDB) -> None:
    asking = Asking(either, schema={"$ref": "http://127.0.0.1:9/schema"})
    assert asking.refuses(1)[0].startswith("the schema refers to what is not in it")


def test_an_answer_that_the_types_own_code_refuses_fails_the_program_and_says_why(either: SessionDB) -> None:
    asking = Asking(either, schema=Stay)
    with pytest.raises(InvalidAnswer, match="no more than 30"):
        asking.answer({"nights": 31})


@pytest.mark.parametrize("value", ["Cy", "ada", "", None, 1, ["Ada"]])
def test_only_an_option_answers(either: SessionDB, value: Any) -> None:
    asking = Asking(either, options=["Ada", "Bo"])
    asking.refuses(value)
    assert asking.answer("Bo") == "Bo"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"options": ["a", "a"]}, "all different"),
        ({"options": ["a", " "]}, "not blank"),
        ({"options": "ab"}, "options are texts"),
        ({"options": [1]}, "options are texts"),
        ({"options": ["a"], "schema": int}, "not both"),
        ({"schema": {"type": "nothing"}}, "no JSON schema"),
        ({"schema": print}, "cannot be described"),
    ],
)
def test_a_question_that_cannot_be_is_refused_when_it_is_asked(
    db: SessionDB, options: dict[str, Any], words: str
) -> None:
    with session_context("s", db=db), pytest.raises(DefinitionError, match=words):
        ask_user("Which?", **options)
    assert db.get_session("s") is not None
    assert [row.type for row in db.read("s")] == ["SESSION_CREATED"]
