"""Asking a person. A question is recorded; with nobody there to answer, the turn suspends until somebody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from segue.errors import DefinitionError, Suspended
from segue.events.facts import QuestionAsked
from segue.ids import new_id
from segue.session.ambient import current_call_id, require_writer


def ask_user(
    question: str,
    options: Sequence[str] | None = None,
    schema: dict[str, Any] | None = None,
    timeout: float | None = None,
) -> NoReturn:
    """Record QUESTION_ASKED and suspend the turn: the answer can come from any entry point, later, once.

    `options` are the answers to choose from, `schema` is the JSON schema of the answer, `timeout` is in seconds.
    Raises the signal `Suspended` (a BaseException: it is not an error), `NoSession` outside any session, and
    `DefinitionError` for a blank question.
    """
    if not question.strip():
        raise DefinitionError("ask_user needs a question that is not blank")
    writer, caller = require_writer(), current_call_id()
    writer.turn.check()
    question_id = new_id("question")
    asked = QuestionAsked(
        question_id=question_id,
        question=question,
        options=list(options or []),
        schema=schema,
        timeout=timeout,
        called_by=caller,
    )
    writer.turn.append(asked)
    writer.turn.follow(caller, question_id)
    writer.turn.wait_opened(question_id)
    raise Suspended(writer.session_id, [question_id])
