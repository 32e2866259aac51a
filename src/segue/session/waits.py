"""Asking a person. A question is recorded; with nobody there to answer, the turn suspends until somebody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.errors import DefinitionError
from segue.events.facts import QuestionAsked
from segue.fold.values import copy_json
from segue.ids import new_id
from segue.session.ambient import current_call_id, require_writer


def ask_user(
    question: str,
    options: Sequence[str] | None = None,
    schema: dict[str, Any] | None = None,
    timeout: float | None = None,
) -> Any:
    """Record QUESTION_ASKED and suspend the turn: the answer can come from any entry point, later, once. When the
    resumed program comes here again, gives the answer.

    `options` are the answers to choose from, `schema` is the JSON schema of the answer, `timeout` is in seconds.
    Raises the signal `Suspended` (a BaseException: it is not an error), `NoSession` outside any session, and
    `DefinitionError` for a blank question.
    """
    if not question.strip():
        raise DefinitionError("ask_user needs a question that is not blank")
    turn, caller = require_writer().turn, current_call_id()
    asked = QuestionAsked(
        question_id=new_id("question"),
        question=question,
        options=list(options or []),
        schema=schema,
        timeout=timeout,
        called_by=caller,
    )
    given = {name: getattr(asked, name) for name in ("question", "options", "schema", "timeout")}
    arguments = {name: value for name, value in given.items() if value not in (None, [])}
    known = turn.recorded(caller, "question", question, arguments)
    if known is not None and known.status == "completed":
        return copy_json(known.result)
    turn.check(caller)
    if known is not None:
        raise turn.wait_opened(known.id, caller)
    turn.append(asked)
    turn.follow(caller, asked.question_id)
    raise turn.wait_opened(asked.question_id, caller)
