"""Of random signatures: what is a value of a parameter's type, written as JSON, is bound to that value again, and its
schema admits the JSON. Of random text: it is bound, or refused with `InvalidArguments`, never anything else."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import keyword
import pathlib
import uuid
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict

import jsonschema
import msgspec
import pydantic
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import InvalidArguments
from segue.events.json_values import to_json
from segue.tools.tool import Tool, as_tool
from segue.typed.docstrings import documented


class Color(enum.Enum):
    RED = "red"
    NONE = None
    TWO = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    label: str | None = None


@dataclasses.dataclass
class Derived:
    size: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.size


@dataclasses.dataclass(frozen=True)
class Tree:
    value: int
    inner: list[Tree]


class Film(TypedDict, total=False):
    title: str
    year: int


class Span(NamedTuple):
    start: datetime.date
    end: datetime.date | None = None


class Shape(msgspec.Struct, tag=True, rename="camel", frozen=True):
    side_count: int
    at: Point


class Model(pydantic.BaseModel):
    size: int = pydantic.Field(alias="theSize")
    names: list[str] = []


class Typed(NamedTuple):
    annotation: Any
    values: st.SearchStrategy[Any]


text = st.text(st.characters(codec="utf-8"), max_size=8)
integers = st.integers(-(10**30), 10**30)
points = st.builds(Point, integers, st.none() | text)
trees = st.recursive(
    st.builds(Tree, integers, st.just([])),
    lambda inner: st.builds(Tree, integers, st.lists(inner, max_size=2)),
    max_leaves=5,
)

SIMPLE = [
    Typed(int, integers),
    Typed(float, st.floats(allow_nan=False, allow_infinity=False)),
    Typed(str, text),
    Typed(bool, st.booleans()),
    Typed(None, st.none()),
    Typed(datetime.datetime, st.datetimes(timezones=st.none() | st.just(datetime.UTC))),
    Typed(datetime.date, st.dates()),
    Typed(datetime.time, st.times()),
    Typed(datetime.timedelta, st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000))),
    Typed(uuid.UUID, st.uuids()),
    Typed(bytes, st.binary(max_size=8)),
    Typed(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    Typed(pathlib.Path, text.map(pathlib.Path).filter(lambda path: "\0" not in str(path))),
    Typed(Color, st.sampled_from(Color)),
    Typed(Literal["a", 1, None, True], st.sampled_from(["a", 1, None, True])),
]
HASHABLE = [*SIMPLE, Typed(Point, points), Typed(Shape, st.builds(Shape, integers, points))]
CLASSES = [
    Typed(Derived, st.builds(Derived, integers)),
    Typed(Tree, trees),
    Typed(Film, st.fixed_dictionaries({}, optional={"title": text, "year": integers})),
    Typed(Span, st.builds(Span, st.dates(), st.none() | st.dates())),
    Typed(Model, st.builds(Model, theSize=integers, names=st.lists(text, max_size=2))),
]
ANYTHING = Typed(
    Any,
    st.recursive(
        st.none() | st.booleans() | integers | text,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
        max_leaves=5,
    ),
)


def containers(inner: Typed) -> list[Typed]:
    annotation, values = inner
    return [
        Typed(list[annotation], st.lists(values, max_size=3)),
        Typed(tuple[annotation, ...], st.lists(values, max_size=3).map(tuple)),
        Typed(tuple[int, annotation], st.tuples(integers, values)),
        Typed(dict[str, annotation], st.dictionaries(text, values, max_size=3)),
        Typed(
            dict[Literal["a", "b"], annotation], st.dictionaries(st.sampled_from("ab"), values, max_size=2)
        ),
    ]


def sets(inner: Typed) -> list[Typed]:
    return [
        Typed(set[inner.annotation], st.sets(inner.values, max_size=3)),
        Typed(frozenset[inner.annotation], st.frozensets(inner.values, max_size=3)),
        Typed(inner.annotation | None if inner.annotation is not None else None, inner.values),
    ]


NAMES = st.from_regex("[a-z]{1,5}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))
types = st.recursive(
    st.sampled_from([*SIMPLE, *HASHABLE, *CLASSES, ANYTHING])
    | st.sampled_from(HASHABLE).flatmap(lambda one: st.sampled_from(sets(one))),
    lambda inner: inner.flatmap(lambda one: st.sampled_from(containers(one))),
    max_leaves=3,
)


def function_of(annotations: dict[str, Any], defaults: dict[str, Any]) -> Callable[..., Any]:
    def function(**given: Any) -> Any:
        return given

    made: Any = function
    made.__signature__ = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=defaults.get(name, inspect.Parameter.empty),
            )
            for name, annotation in annotations.items()
        ]
    )
    return function


@st.composite
def calls(draw: st.DrawFn) -> tuple[Tool[..., Any], dict[str, Any], dict[str, Any]]:
    """A tool, arguments that are given to it, and the defaults of those that are not."""
    parameters = draw(st.dictionaries(NAMES, types, max_size=4))
    values = {name: draw(one.values) for name, one in parameters.items()}
    left_out = draw(st.sets(st.sampled_from(sorted(values)), max_size=2)) if values else set()
    defaults = {name: values[name] for name in left_out}
    made = as_tool(function_of({name: one.annotation for name, one in parameters.items()}, defaults))
    return made, {name: value for name, value in values.items() if name not in left_out}, defaults


def as_objects(value: Any) -> Any:
    """As a model writes it, where Segue's own encoder writes another form."""
    if isinstance(value, dict):
        return {name: as_objects(item) for name, item in value.items()}
    if isinstance(value, Span):
        return value._asdict()
    if isinstance(value, Derived):
        return {"size": value.size}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return type(value)(map(as_objects, value)) if isinstance(value, (list, tuple, set, frozenset)) else value


@given(calls())
def test_what_is_written_as_json_is_bound_to_the_same_value(
    call: tuple[Tool[..., Any], dict[str, Any], dict[str, Any]],
) -> None:
    made, given_arguments, defaults = call
    jsonschema.Draft202012Validator.check_schema(made.parameters)
    jsonschema.validate(to_json(as_objects(given_arguments)), made.parameters)
    for written in (to_json(given_arguments), to_json(as_objects(given_arguments))):
        assert made.bind(json.dumps(written)) == {**given_arguments, **defaults}


def problems_of(made: Tool[..., Any], arguments: str) -> list[str] | None:
    """None when they are bound."""
    try:
        made.bind(arguments)
    except InvalidArguments as error:
        return error.problems
    return None


@given(calls(), st.text() | st.from_regex(r'[\[\]{}",:0-9a-z\\]*'))
def test_any_text_is_bound_or_refused_for_the_model(
    call: tuple[Tool[..., Any], dict[str, Any], dict[str, Any]], arguments: str
) -> None:
    made, given_arguments, _ = call
    whole = json.dumps(to_json(given_arguments))
    for attempt in (arguments, whole[: len(arguments)], f'{{"a": {arguments}}}', whole + arguments):
        assert problems_of(made, attempt) != []


@given(calls(), ANYTHING.values)
def test_any_json_in_the_place_of_a_value_is_bound_or_refused_for_the_model(
    call: tuple[Tool[..., Any], dict[str, Any], dict[str, Any]], value: Any
) -> None:
    made, given_arguments, _ = call
    for name in given_arguments:
        problems = problems_of(made, json.dumps(to_json(given_arguments) | {name: value}))
        assert all(problem.startswith((name, f"the key of {name}")) for problem in problems or [])


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "Args:",
                "x: a",
                "    x: b",
                "Parameters",
                "-----",
                ":param x: c",
                ":type x",
                "",
                "Returns:",
                "x : int",
                "    text",
            ]
        )
    ).map("\n".join)
)
def test_any_docstring_is_read(text: str) -> None:
    lines = {line.strip() for line in inspect.cleandoc(text).splitlines()}
    assert {line.strip() for line in documented(text).text.splitlines()} <= lines | {""}
