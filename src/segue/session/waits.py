"""Asking a person. A question is recorded; with nobody there to answer, the turn suspends until somebody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.errors import DefinitionError, InvalidAnswer
from segue.events.facts import QuestionAsked
from segue.fold.values import copy_json
from segue.ids import new_id
from segue.session.ambient import current_call_id, require_writer
from segue.session.answers import answer_form
from segue.typed.forms import Anything, Form, Misfits, converted


def ask_user(
    question: str,
    options: Sequence[str] | None = None,
    schema: Any = None,
    timeout: float | None = None,
) -> Any:
    """Record QUESTION_ASKED and suspend the turn: the answer can come from any entry point, later, once. When the
    resumed program comes here again, gives the answer.

    `options` are the answers to choose from. `schema` is a type (any that a tool's parameter can have): the answer is
    given as a value of it; or a JSON schema as a dict. `timeout` is in seconds.

    Raises the signal `Suspended` (a BaseException: it is not an error), `NoSession` outside any session, and
    `DefinitionError` for a blank question, options that are not texts or not all different, options and a schema at
    once, and what is no schema; `InvalidAnswer` where the type's own code refuses an answer that is of its schema.
    """
    if not question.strip():
        raise DefinitionError("ask_user needs a question that is not blank")
    chosen = _options(options)
    if chosen and schema is not None:
        raise DefinitionError("ask_user takes options or a schema, not both")
    form, described = (Anything(), None) if schema is None else answer_form(schema)
    turn, caller = require_writer().turn, current_call_id()
    asked = QuestionAsked(
        question_id=new_id("question"),
        question=question,
        options=chosen,
        schema=described,
        timeout=timeout,
        called_by=caller,
    )
    given = {name: getattr(asked, name) for name in ("question", "options", "schema", "timeout")}
    arguments = {name: value for name, value in given.items() if value not in (None, [])}
    known = turn.recorded(caller, "question", question, arguments)
    if known is not None and known.status == "completed":
        return _restored(question, form, copy_json(known.result))
    turn.check(caller)
    if known is not None:
        raise turn.wait_opened(known.id, caller)
    turn.append(asked)
    turn.follow(caller, asked.question_id)
    raise turn.wait_opened(asked.question_id, caller)


def _options(options: Sequence[str] | None) -> list[str]:
    chosen = [] if options is None else list(options)
    is_text = not isinstance(options, str) and all(
        isinstance(option, str) and option.strip() for option in chosen
    )
    if not is_text or len(set(chosen)) != len(chosen):
        raise DefinitionError(f"options are texts, not blank, all different: {options!r}")
    return chosen


def _restored(question: str, form: Form, answer: Any) -> Any:
    try:
        return converted(form, answer)
    except Misfits as misfits:
        raise InvalidAnswer(
            f"{question!r} was answered with what it does not take:\n{misfits}", problems=misfits.lines
        ) from misfits
