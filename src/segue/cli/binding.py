"""How words from the command line become a function's arguments. Pure: text and a signature in, values out."""

from __future__ import annotations

import difflib
import inspect
import json
import types
import typing
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

import msgspec

from segue.errors import UsageError
from segue.typed.annotations import Scope, Unresolved, scope_of
from segue.typed.build import form_of
from segue.typed.forms import Indescribable, Misfits, converted

_NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class Bound(msgspec.Struct):
    args: list[Any]
    kwargs: dict[str, Any]


def parameters_of(function: Callable[..., Any], *, without: Sequence[str] = ()) -> list[Parameter]:
    """The parameters one can name, and `**kwargs`, with annotations that are types where they resolve to one."""
    scope = scope_of(function)
    return [
        parameter.replace(annotation=_resolved(parameter.annotation, scope))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not Parameter.VAR_POSITIONAL and parameter.name not in without
    ]


def text_parameter(parameters: Sequence[Parameter], given: Sequence[str]) -> Parameter | None:
    """The parameter that TEXT goes to: the first `str` (or `str | None`) that no `--arg` fills."""
    filled = {_split(pair)[0] for pair in given}
    return next(
        (p for p in parameters if _named(p) and p.name not in filled and takes_text(p.annotation)), None
    )


def bind(parameters: Sequence[Parameter], text: str | None, given: Sequence[str]) -> Bound:
    """Values for a call. `given` are `name=value` words. Raises `UsageError` for what is unknown, wrong or missing."""
    values = _parsed(parameters, given)
    if text is not None:
        target = text_parameter(parameters, given)
        if target is None:
            raise UsageError("the function has no str parameter left for TEXT: use --arg name=value")
        values[target.name] = text
    missing = [p for p in parameters if _named(p) and p.name not in values and p.default is Parameter.empty]
    if missing:
        wanted = ", ".join(f"{p.name} ({_type_name(p.annotation)})" for p in missing)
        raise UsageError(f"missing: {wanted}. Give --arg {missing[0].name}=...")
    return _placed(parameters, values)


def parse_value(text: str, annotation: Any) -> Any:
    """Text as it is for `str`; else the value of the text as JSON, or the text itself, whichever the type takes.

    Raises `UsageError` when neither does.
    """
    if takes_text(annotation):
        return text
    candidates = [*_as_json(text), text]
    try:
        form = form_of(annotation)
    except (Indescribable, Unresolved):  # the function sees the plain value
        return candidates[0]
    problems = []
    for candidate in candidates:
        try:
            return converted(form, candidate)
        except Misfits as misfits:
            problems.append(str(misfits).removeprefix("it: "))
    raise UsageError(problems[0])


def takes_text(annotation: Any) -> bool:
    """Whether it is `str`, or `str` and None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return takes_text(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation)) == {str, type(None)}
    return annotation is str or annotation == "str"


def _parsed(parameters: Sequence[Parameter], given: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in given:
        name, text = _split(pair)
        if name in values:
            raise UsageError(f"--arg {name} was given twice")
        try:
            values[name] = parse_value(text, _annotation(parameters, name))
        except UsageError as error:
            raise UsageError(f"--arg {name}: {error}") from error
    return values


def _annotation(parameters: Sequence[Parameter], name: str) -> Any:
    for parameter in parameters:
        if parameter.name == name and _named(parameter):
            return parameter.annotation
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return Any
    names = [parameter.name for parameter in parameters]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there is {', '.join(names) or 'none'}"
    raise UsageError(f"no such parameter: {hint}")


def _placed(parameters: Sequence[Parameter], values: dict[str, Any]) -> Bound:
    bound = Bound([], {})
    skipped = False
    for parameter in parameters:
        if parameter.kind is not Parameter.POSITIONAL_ONLY:
            continue
        if parameter.name not in values:
            skipped = True
        elif skipped:
            raise UsageError(f"--arg {parameter.name} needs the positional parameters before it as well")
        else:
            bound.args.append(values.pop(parameter.name))
    bound.kwargs = values
    return bound


def _split(pair: str) -> tuple[str, str]:
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"--arg {pair}: write it as name=value")
    return name, text


def _named(parameter: Parameter) -> bool:
    return parameter.kind in _NAMED


def _as_json(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return []


def _resolved(annotation: Any, scope: Scope) -> Any:
    """The annotation, or the text that it is where a name in it exists for type checkers only."""
    try:
        return scope.resolve(annotation)
    except Unresolved:
        return annotation


def _type_name(annotation: Any) -> str:
    if annotation is Parameter.empty:
        return "any value"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
