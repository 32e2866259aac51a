"""A model's argument text becomes typed arguments, or words that let the model correct it.

Scenarios B064 (no arguments, in all the ways that models write it) and B065 (text that is not JSON).
"""

from __future__ import annotations

import datetime
import enum
import json
import sys
from typing import Any, Literal

import msgspec
import pytest

from segue.errors import InvalidArguments
from segue.tools.tool import as_tool


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int = 0


def ping() -> str:
    return "pong"


def greet(name: str = "x") -> str:
    return f"hello {name}"


def need(a: int) -> int:
    return a


def bash(command: str) -> str:
    raise AssertionError("it must not run")


def draw(
    at: Point, color: Color, mode: Literal["fill", "line"] = "fill", when: datetime.date | None = None
) -> None:
    """Draw."""


NO_ARGUMENTS = ["", " ", "\n\t", "null", " null ", "{}", " { } "]


@pytest.mark.parametrize("text", NO_ARGUMENTS)
@pytest.mark.parametrize(("function", "result"), [(ping, "pong"), (greet, "hello x")])
def test_no_arguments_are_none_however_they_are_written(text: str, function: Any, result: str) -> None:
    made = as_tool(function)
    assert made(**made.bind(text)) == result


@pytest.mark.parametrize("text", NO_ARGUMENTS)
def test_a_missing_argument_is_named(text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        as_tool(need).bind(text)
    assert caught.value.problems == ["a: it is missing; expected an integer"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"command": "ls', 'Unterminated string starting at line 1, column 13: \'{"command": "ls\''),
        ('{"command": "ls"}{"command": "rm"}', "something follows its end at line 1, column 18"),
        ('{"command": "ls"} # list', "something follows its end at line 1, column 19"),
        ('{"command": "ls",}', "at line 1, column 1"),
        ("{'command': 'ls'}", "Expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"command": NaN}', "NaN is not JSON"),
        ('```json\n{"command": "ls"}\n```', "it is in a Markdown fence: give the JSON alone"),
        ('{"command": "ls", "command": "rm"}', 'the key "command" stands twice in one object'),
        ('{"command": "\\ud800"}', "it holds half of a character"),
        ('{"command": ' + "9" * 5000 + "}", "an integer has 5,000 digits, over the limit of 4,300"),
        ('{"command": ' + "[" * 50_000, "it is nested more than 200 levels deep"),
        ("ls " * 350_000, "Expecting value at line 1, column 1: 'ls ls ls ls ls ls ls"),
        ("undefined", "Expecting value at line 1, column 1: 'undefined'"),
    ],
    ids=lambda part: part[:30],
)
def test_text_that_is_not_json_is_answered_with_the_place_and_an_excerpt(text: str, problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        as_tool(bash).bind(text)
    (found,) = caught.value.problems
    assert found.startswith("they are not the text of one JSON object: ")
    assert problem in found
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "shown"), [("[1]", "[1]"), ("5", "5"), ('"{}"', '"{}"'), ("true", "true"), ("false", "false")]
)
def test_json_that_is_not_an_object_is_refused(text: str, shown: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        as_tool(ping).bind(text)
    assert caught.value.problems == [f"they are not a JSON object but {shown}"]


def test_a_model_is_told_everything_that_is_wrong_and_what_to_do() -> None:
    with pytest.raises(InvalidArguments) as caught:
        as_tool(draw).bind('{"at": {"x": "a", "z": 1}, "mod": "fill", "when": "soon", "runtime": 1}')
    assert str(caught.value) == (
        "draw was not run, because its arguments do not fit:\n"
        "- mod: there is no such parameter; did you mean mode?\n"
        "- runtime: there is no such parameter; there is at, color, mode, when\n"
        "- at.z: there is no such key; there is x, y\n"
        '- at.x: expected an integer, got "a"\n'
        '- color: it is missing; expected one of "red"\n'
        '- when: expected a date such as 2026-11-30 or null, got "soon"\n'
        "Call draw again with arguments that fit."
    )
    assert caught.value.code == "invalid_arguments"


def test_arguments_arrive_as_the_types_of_the_signature_in_its_order() -> None:
    bound = as_tool(draw).bind('{"when": "2026-11-30", "color": "red", "at": {"x": "5"}}')
    assert list(bound.items()) == [
        ("at", Point(5)),
        ("color", Color.RED),
        ("mode", "fill"),
        ("when", datetime.date(2026, 11, 30)),
    ]


def test_a_default_arrives_as_it_is_even_where_json_has_no_form_of_it() -> None:
    nothing = object()

    def find(q: Any = nothing, names: list[str] = ()) -> None:  # type: ignore[assignment]
        """Find."""

    assert as_tool(find).bind("") == {"q": nothing, "names": ()}


def test_null_for_a_parameter_whose_default_is_none_is_that_default() -> None:
    def find(limit: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """Find."""

    made = as_tool(find)
    assert made.bind('{"limit": null}') == {"limit": None}
    assert made.parameters["properties"]["limit"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }


def test_the_schema_says_nothing_of_a_default_that_json_has_no_form_of() -> None:
    def find(q: Any = object()) -> None:  # noqa: B008
        """Find."""

    assert as_tool(find).parameters["properties"] == {"q": {}}


def test_many_problems_are_counted_and_not_all_listed() -> None:
    def add(numbers: list[int]) -> None:
        """Add."""

    with pytest.raises(InvalidArguments) as caught:
        as_tool(add).bind(json.dumps({"numbers": ["a"] * 10_000}))
    assert len(caught.value.problems) == 10_000
    assert str(caught.value).splitlines()[20:] == [
        '- numbers[19]: expected an integer, got "a"',
        "- and 9,980 more",
        "Call add again with arguments that fit.",
    ]


@pytest.mark.parametrize("key", ["a" * 1_000_000, "a b" * 1_000_000], ids=["name", "text"])
def test_a_key_of_any_length_is_answered_shortly(key: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        as_tool(need).bind(json.dumps({key: 1}))
    assert len(str(caught.value)) < 400


def test_text_under_a_lower_limit_of_digits_is_refused_too() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidArguments, match="Exceeds the limit"):
            as_tool(need).bind('{"a": ' + "9" * 700 + "}")
    finally:
        sys.set_int_max_str_digits(limit)
