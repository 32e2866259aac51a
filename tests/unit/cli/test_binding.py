"""Words of the command line become arguments by name and annotation."""

from __future__ import annotations

import enum
import inspect
from pathlib import Path
from typing import Any, Literal

import pytest

from segue.cli.binding import Bound, bind, parameters_of, parse_value
from segue.errors import UsageError


class Color(enum.Enum):
    RED = "red"


def write(title: str, notes: list[str], count: int = 3, footer: str | None = None) -> None: ...


def count(n: int) -> None: ...


def anything(**options: Any) -> None: ...


def positional(first: int, second: str, /, third: bool = False) -> None: ...


def bound(function: Any, text: str | None, *given: str) -> tuple[list[Any], dict[str, Any]]:
    result: Bound = bind(parameters_of(function), text, given)
    return result.args, result.kwargs


def test_text_goes_to_the_first_str_parameter() -> None:
    assert bound(write, "Roofs", 'notes=["a"]') == ([], {"notes": ["a"], "title": "Roofs"})


def test_text_goes_to_the_next_str_parameter_when_an_argument_fills_the_first() -> None:
    filled = bound(write, "the end", "title=Roofs", "notes=[]")
    assert filled == ([], {"title": "Roofs", "notes": [], "footer": "the end"})


def test_text_without_a_str_parameter_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no str parameter left for TEXT"):
        bound(count, "hello")


def test_text_that_is_empty_is_still_text() -> None:
    assert bound(write, "", "notes=[]") == ([], {"notes": [], "title": ""})


def test_a_missing_parameter_is_named_with_its_type() -> None:
    with pytest.raises(UsageError, match=r"missing: title \(str\), notes .*Give --arg title="):
        bound(write, None)


def test_an_unknown_argument_suggests_the_one_that_is_near() -> None:
    with pytest.raises(UsageError, match=r"--arg note: no such parameter: did you mean notes\?"):
        bound(write, None, "note=1")


def test_the_same_argument_twice_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--arg n was given twice"):
        bound(count, None, "n=1", "n=2")


@pytest.mark.parametrize("word", ["n", "=1", ""])
def test_an_argument_without_name_or_equals_sign_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="write it as name=value"):
        bound(count, None, word)


def test_a_value_may_hold_equals_signs() -> None:
    assert bound(write, None, "title=a=b", "notes=[]") == ([], {"title": "a=b", "notes": []})


def test_keyword_parameters_take_any_name() -> None:
    assert bound(anything, None, "a=1", "b=x") == ([], {"a": 1, "b": "x"})


def test_positional_parameters_are_given_by_name_too() -> None:
    assert bound(positional, "two", "first=1", "third=true") == ([1, "two"], {"third": True})


def test_an_injected_parameter_is_not_for_the_command_line() -> None:
    def function(text: str, runtime: Any) -> None: ...

    assert [p.name for p in parameters_of(function, without=("runtime",))] == ["text"]


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("5", str, "5"),
        ("null", str | None, "null"),
        ("5", int, 5),
        ("5", float, 5.0),
        ("true", bool, True),
        ('["a", "b"]', list[str], ["a", "b"]),
        ('{"a": 1}', dict[str, int], {"a": 1}),
        ("null", int | None, None),
        ("blue", Literal["red", "blue"], "blue"),
        ("red", Color, Color.RED),
        ("a/b", Path, Path("a/b")),
        ("[1]", Any, [1]),
        ("plain words", Any, "plain words"),
        ("7", inspect.Parameter.empty, 7),
    ],
)
def test_a_value_is_parsed_by_its_annotation(text: str, annotation: Any, value: Any) -> None:
    parsed = parse_value(text, annotation)
    assert (parsed, type(parsed)) == (value, type(value))


def test_a_name_for_type_checkers_only_leaves_the_other_parameters_their_types() -> None:
    def function(count: int, where: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert bound(function, None, "count=1", "where=2") == ([], {"count": 1, "where": 2})


def test_what_does_not_fit_is_told_in_words() -> None:
    with pytest.raises(UsageError) as caught:
        bound(count, None, "n=many")
    assert str(caught.value) == '--arg n: expected an integer, got "many"'


@pytest.mark.parametrize(
    ("text", "annotation"), [("x", int), ("1.5", int), ("[null]", list[str]), ("pink", Color)]
)
def test_a_value_that_is_not_of_the_type_is_a_usage_error(text: str, annotation: Any) -> None:
    with pytest.raises(UsageError):
        parse_value(text, annotation)
