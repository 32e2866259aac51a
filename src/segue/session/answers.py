"""What answers a question: one of its options, a value of its schema, or any."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from segue.errors import DefinitionError, InvalidAnswer
from segue.typed.annotations import Unresolved
from segue.typed.build import form_of
from segue.typed.forms import Anything, Form, Indescribable, schema_of
from segue.typed.strict_json import NotJson, read_json


def fitting(question: str, options: Sequence[str], schema: dict[str, Any] | None, value: Any) -> Any:
    """The answer (a JSON value) as it counts. Text that is of no use itself is taken as the JSON that is in it.

    Raises `InvalidAnswer` naming everything that does not fit.
    """
    if options:
        if not (isinstance(value, str) and value in options):
            raise InvalidAnswer(f"{question!r} takes one of: {', '.join(options)}", problems=[])
        return value
    if schema is None:
        return value
    problems = misfits(schema, value)
    if problems and isinstance(value, str):
        try:
            meant = read_json(value)
        except NotJson:
            pass
        else:
            problems, value = misfits(schema, meant), meant
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise InvalidAnswer(f"that does not answer {question!r}:\n{listed}", problems=problems)
    return value


def misfits(schema: dict[str, Any], value: Any) -> list[str]:
    """Everything in a JSON value that is not of the schema, one line each."""
    found: list[str] = _json_schema().schema_misfits(schema, value)
    return found


def answer_form(schema: Any) -> tuple[Form, dict[str, Any]]:
    """How an answer becomes a value, and its JSON schema, for a type or a JSON schema. Raises `DefinitionError`."""
    if isinstance(schema, dict):
        problem = _json_schema().schema_problem(schema)
        if problem:
            raise DefinitionError(f"schema is no JSON schema: {problem}")
        return Anything(), schema
    try:
        form = form_of(schema)
    except (Indescribable, Unresolved) as error:
        raise DefinitionError(f"schema={schema!r} cannot be described as a JSON schema: {error}") from error
    return form, schema_of(form)


def _json_schema() -> Any:
    """Loaded with the first schema: it takes longer to load than most sessions to open."""
    return importlib.import_module("segue.typed.json_schema")
