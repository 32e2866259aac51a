"""Values against a JSON schema that somebody wrote. Loaded only where there is one: see `segue.session.answers`."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from segue.typed.forms import member, shown


def schema_problem(schema: dict[str, Any]) -> str:
    """What keeps it from being a schema; empty when it is one."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_place(error.absolute_path)}: {error.message}"
    return ""


def schema_misfits(schema: dict[str, Any], value: Any) -> list[str]:
    """Everything in a JSON value that is not of the schema, one line each. Nothing is fetched from anywhere."""
    checker: Any = Draft202012Validator(schema, registry=Registry())
    try:
        errors = sorted(checker.iter_errors(value), key=lambda error: [str(at) for at in error.absolute_path])
        return [_line(best_match([error]) or error) for error in errors]
    except Unresolvable as error:
        return [f"the schema refers to what is not in it: {error}"]


def _line(error: Any) -> str:
    return f"{_place(error.absolute_path) or 'it'}: {shown_message(error)}"


def shown_message(error: Any) -> str:
    """jsonschema quotes the whole value, which may be long."""
    message = str(error.message)
    whole = repr(error.instance)
    return message.replace(whole, shown(error.instance)) if len(whole) > 80 else message


def _place(path: Any) -> str:
    at = ""
    for part in path:
        at = f"{at}[{part}]" if isinstance(part, int) else member(at, str(part))
    return at
