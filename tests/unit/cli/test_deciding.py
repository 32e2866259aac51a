"""The words of `segue answer`, and what completes them."""

from __future__ import annotations

import click
import pytest

from segue.cli import completion
from segue.cli.main import main
from segue.errors import Suspended
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.waits import ask_user


@pytest.fixture
def question(db: SessionDB) -> str:
    """The id of the question that the session `f` waits for."""
    with pytest.raises(Suspended), session_context("f", db=db):
        ask_user("Where?")
    [wait] = decisions.open_waits(db.journal("f"))
    return wait.id


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "say the answer"),
        (("a", "b", "c"), 2, "say the answer"),
        (("{id}",), 2, "is the question"),
        (("other", "Bern"), 1, "waits for no question"),
        (("--json", "{"), 2, "--json is not JSON"),
        (("Bern",), 0, "answered: Where?"),
        (("-", "Bern"), 0, "answered: Where?"),
        (("{id}", "Bern"), 0, "answered: Where?"),
        (("--json", '"Bern"'), 0, "answered: Where?"),
        (("{id}", "--json", '["Bern"]'), 0, "answered: Where?"),
    ],
)
def test_an_answer_with_and_without_the_questions_id(
    db: SessionDB,
    question: str,
    words: tuple[str, ...],
    code: int,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["answer", "f", *(word.replace("{id}", question) for word in words)]) == code
    assert told in capsys.readouterr().err
    assert (decisions.open_waits(db.journal("f")) == []) == (code == 0)


def test_what_waits_in_a_session_completes(db: SessionDB, question: str) -> None:
    context = click.Context(click.Command("approve"))
    context.params = {"session": "f"}
    parameter = click.Argument(["call"])
    assert [item.value for item in completion.wait_ids(context, parameter, "quest")] == [question]
    assert completion.wait_ids(context, parameter, "call") == []
    assert completion.rule_ids(context, parameter, "") == []
    context.params = {"session": "nothing-there"}
    assert completion.wait_ids(context, parameter, "") == []
