"""Each kind of type: its schema, the values it takes and what they become, and what it says of those it refuses."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from segue.typed.annotations import Scope, Unresolved
from segue.typed.build import form_of, json_default
from segue.typed.forms import Indescribable, Misfits, converted, schema_of

T = TypeVar("T")
UserId = NewType("UserId", int)
Metres = NewType("Metres", Annotated[int, "in metres"])
Json = typing_extensions.TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")
Pair = typing_extensions.TypeAliasType("Pair", tuple[T, T], type_params=(T,))
NULL = {"type": "null"}
INT = {"type": "integer"}
TEXT = {"type": "string"}


class Color(enum.Enum):
    """A colour of the palette."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    HALF = 0.5
    WORD = "word"
    PAIR = (1, 2)


@dataclasses.dataclass
class Point:
    """A point of the plane.

    Attributes:
        x: to the right
    """

    x: int
    y: float = 0.0
    kind: ClassVar[str] = "point"
    cached: int = dataclasses.field(default=7, init=False)


@dataclasses.dataclass(frozen=True)
class Node:
    value: int
    inner: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Boxes(Generic[T]):
    boxes: Box[list[T]]


@dataclasses.dataclass
class Endless(Generic[T]):
    inner: Endless[list[T]] | None


@dataclasses.dataclass
class Shape(abc.ABC):
    size: int

    @abc.abstractmethod
    def area(self) -> float: ...


@dataclasses.dataclass(init=False)
class Own:
    size: int

    def __init__(self, size: int, other: int) -> None:
        self.size = size + other


@dataclasses.dataclass
class Left:
    inner: Left | Right | None
    left: int


@dataclasses.dataclass
class Right:
    inner: Left | Right | None
    right: int


N = TypeVar("N", int, bytes)


@dataclasses.dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("the number must be even")


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Extended(typing_extensions.TypedDict, total=False):
    title: typing_extensions.Required[typing_extensions.ReadOnly[str]]
    year: int


class Span(NamedTuple):
    start: int
    end: int = 9


class Cat(msgspec.Struct, tag="cat", rename="camel"):
    nine_lives: bool


class Dog(msgspec.Struct, tag="dog"):
    name: str
    owner: str | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True):
    a: int
    b: str


class Model(pydantic.BaseModel):
    size: int
    part: Optional[Model] = None  # noqa: UP045


def numbered(rows: list[Any]) -> list[str]:
    return [f"{number}-{str(row[0])[:40]}" for number, row in enumerate(rows)]


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


POINT = {
    "description": "A point of the plane.",
    **closed(["x"], x=INT | {"description": "to the right"}, y={"type": "number", "default": 0.0}),
}

TAKEN = [
    (int, INT, 5, 5),
    (int, INT, "5", 5),
    (int, INT, " -12 ", -12),
    (int, INT, 5.0, 5),
    (float, {"type": "number"}, 5, 5.0),
    (float, {"type": "number"}, "2.5e3", 2500.0),
    (bool, {"type": "boolean"}, True, True),
    (bool, {"type": "boolean"}, "True", True),
    (str, TEXT, "5", "5"),
    (str, TEXT, 5, "5"),
    (None, NULL, None, None),
    (type(None), NULL, "null", None),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (object, {}, 1.5, 1.5),
    (
        datetime.datetime,
        TEXT | {"format": "date-time"},
        "2026-11-30T09:30:00Z",
        datetime.datetime(2026, 11, 30, 9, 30, tzinfo=datetime.UTC),
    ),
    (
        datetime.datetime,
        TEXT | {"format": "date-time"},
        "2026-11-30 09:30",
        datetime.datetime(2026, 11, 30, 9, 30),
    ),
    (datetime.date, TEXT | {"format": "date"}, "2026-11-30", datetime.date(2026, 11, 30)),
    (datetime.time, TEXT | {"format": "time"}, "09:30:00", datetime.time(9, 30)),
    (
        datetime.timedelta,
        TEXT | {"format": "duration"},
        "PT1H30M",
        datetime.timedelta(hours=1, minutes=30),
    ),
    (
        uuid.UUID,
        TEXT | {"format": "uuid"},
        "12345678-1234-5678-1234-567812345678",
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
    ),
    (decimal.Decimal, None, "1.50", decimal.Decimal("1.50")),
    (decimal.Decimal, None, 3, decimal.Decimal(3)),
    (bytes, TEXT | {"contentEncoding": "base64"}, "aGk=", b"hi"),
    (pathlib.Path, TEXT, "a/b", pathlib.Path("a/b")),
    (pathlib.PurePosixPath, TEXT, "a/b", pathlib.PurePosixPath("a/b")),
    (Literal["x", "y"], TEXT | {"enum": ["x", "y"]}, "y", "y"),
    (Literal[1, "one", None], {"enum": [1, "one", None]}, "1", 1),
    (Literal[Color.RED], TEXT | {"enum": ["red"]}, "red", Color.RED),
    (Color, TEXT | {"enum": ["red", "blue"], "description": "A colour of the palette."}, "red", Color.RED),
    (Level, INT | {"enum": [1, 2]}, 2, Level.HIGH),
    (Level, INT | {"enum": [1, 2]}, "2", Level.HIGH),
    (Level, INT | {"enum": [1, 2]}, 2.0, Level.HIGH),
    (Odd, {"enum": [0.5, "word", [1, 2]]}, [1, 2], Odd.PAIR),
    (list, array({}), [1, "a"], [1, "a"]),
    (list[int], array(INT), ["1", 2], [1, 2]),
    (list[int], array(INT), "[1, 2]", [1, 2]),
    (Sequence[int], array(INT), [1], [1]),
    (Iterable[int], array(INT), [1], [1]),
    (collections.deque[int], array(INT), [1], collections.deque([1])),
    (set[int], array(INT, uniqueItems=True), [1, 1], {1}),
    (frozenset[Color], None, ["red"], frozenset({Color.RED})),
    (tuple[int, ...], array(INT), [1, 2], (1, 2)),
    (tuple, array({}), [1, "a"], (1, "a")),
    (
        tuple[int, str],
        {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INT, TEXT]},
        [1, "a"],
        (1, "a"),
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
    (dict, {"type": "object", "additionalProperties": {}}, {"a": 1}, {"a": 1}),
    (dict[str, int], {"type": "object", "additionalProperties": INT}, '{"a": 1}', {"a": 1}),
    (Mapping[int, str], {"type": "object", "additionalProperties": TEXT}, {"1": "a"}, {1: "a"}),
    (
        dict[Color, int],
        {"type": "object", "properties": {"red": INT, "blue": INT}, "additionalProperties": False},
        {"red": 1},
        {Color.RED: 1},
    ),
    (int | None, {"anyOf": [INT, NULL]}, None, None),
    (Optional[str], {"anyOf": [TEXT, NULL]}, "null", "null"),  # noqa: UP045
    (Union[str, int], {"anyOf": [TEXT, INT]}, 5, 5),  # noqa: UP007
    (bool | int, None, 1, 1),
    (int | bool, None, "true", True),
    (datetime.date | str, None, "2026-11-30", datetime.date(2026, 11, 30)),
    (datetime.date | str, None, "soon", "soon"),
    (Cat | Dog, None, {"type": "dog", "name": "Rex"}, Dog("Rex")),
    (Film | Span | None, None, {"start": 1}, Span(1)),
    (UserId, INT, 5, 5),
    (list[UserId], array(INT), [5], [5]),
    (Pair[int], None, [1, 2], (1, 2)),
    (Point, POINT, {"x": 1}, Point(1)),
    (Point, POINT, '{"x": "1", "y": 2}', Point(1, 2.0)),
    (Box[int], closed(["content"], content=INT), {"content": "5"}, Box(5)),
    (Box[Box[str]], None, {"content": {"content": "a"}}, Box(Box("a"))),
    (Boxes[int], None, {"boxes": {"content": ["5"]}}, Boxes(Box([5]))),
    (list[N], array({"anyOf": [INT, TEXT | {"contentEncoding": "base64"}]}), [5, "aGk="], [5, b"hi"]),
    (Even, closed(["number"], number=INT), {"number": 4}, Even(4)),
    (Film, closed(["title"], title=TEXT, year=INT), {"title": "M"}, {"title": "M"}),
    (Extended, closed(["title"], title=TEXT, year=INT), {"title": "M"}, {"title": "M"}),
    (Span, closed(["start"], start=INT, end=INT | {"default": 9}), {"start": 1}, Span(1)),
    (Span, closed(["start"], start=INT, end=INT | {"default": 9}), [1, 2], Span(1, 2)),
    (
        Cat,
        closed(["type", "nineLives"], type={"const": "cat"}, nineLives={"type": "boolean"}),
        {"type": "cat", "nineLives": True},
        Cat(True),
    ),
    (
        Dog,
        closed(["type", "name"], type={"const": "dog"}, name=TEXT, owner=TEXT),
        {"type": "dog", "name": "Rex", "owner": "Ann"},
        Dog("Rex", "Ann"),
    ),
    (Row, None, [1, "a"], Row(1, "a")),
    (Model, None, {"size": 1, "part": {"size": 2}}, Model(size=1, part=Model(size=2))),
    (Annotated[int, "in metres"], INT | {"description": "in metres"}, 5, 5),
    (Annotated[int, typing_extensions.Doc("in metres")], INT | {"description": "in metres"}, 5, 5),
    (
        Annotated[int, msgspec.Meta(ge=3, lt=9, description="how many", examples=[4])],
        INT | {"minimum": 3, "exclusiveMaximum": 9, "examples": [4], "description": "how many"},
        3,
        3,
    ),
    (
        Annotated[str, pydantic.Field(min_length=1, pattern="^a", description="a word")],
        TEXT | {"minLength": 1, "pattern": "^a", "description": "a word"},
        "ab",
        "ab",
    ),
    (Annotated[int, annotated_types.Interval(ge=1, le=3)], INT | {"minimum": 1, "maximum": 3}, 3, 3),
    (Annotated[list[int], annotated_types.Len(1, 2)], array(INT, minItems=1, maxItems=2), [1], [1]),
    (
        Annotated[int | None, pydantic.Field(gt=0)],
        {"anyOf": [INT | {"exclusiveMinimum": 0}, NULL]},
        None,
        None,
    ),
    (
        Annotated[dict[str, int], msgspec.Meta(max_length=1)],
        {"type": "object", "additionalProperties": INT, "maxProperties": 1},
        {"a": 1},
        {"a": 1},
    ),
    (Annotated[str, pydantic.AfterValidator(str.upper)], TEXT, "ab", "AB"),
    (Annotated[str, pydantic.AfterValidator(str.upper)], TEXT, "[1, 2]", "[1, 2]"),
    (Model, None, '{"size": "2"}', Model(size=2)),
    (Annotated[UserId, msgspec.Meta(ge=3)], INT | {"minimum": 3}, 3, 3),
    (
        Annotated[Metres, msgspec.Meta(ge=3)],
        INT | {"minimum": 3, "description": "in metres"},
        3,
        3,
    ),
    (pydantic.JsonValue, None, {"a": [1, None]}, {"a": [1, None]}),
    (
        Annotated[str, pydantic.StringConstraints(strip_whitespace=True)],
        TEXT,
        " a ",
        "a",
    ),
]


@pytest.mark.parametrize(("wanted", "schema", "given", "value"), TAKEN, ids=numbered(TAKEN))
def test_a_value_becomes_one_of_the_type(wanted: Any, schema: Any, given: Any, value: Any) -> None:
    form = form_of(wanted)
    made = converted(form, given, "it")
    assert (type(made), made) == (type(value), value)
    if schema is not None:
        assert schema_of(form) == schema


REFUSED = [
    (int, "5.5", 'it: expected an integer, got "5.5"'),
    (int, True, "it: expected an integer, got true"),
    (int, 5.5, "it: expected an integer, got 5.5"),
    (int, "٣", 'it: expected an integer, got "٣"'),
    (int, "007", 'it: expected an integer, got "007"'),
    (float, "nan", 'it: expected a number, got "nan"'),
    (float, "1e999", 'it: expected a number, got "1e999"'),
    (float, 10**400, f"it: expected a number, got 1{'0' * 79}... (401 characters)"),
    (bool, 1, "it: expected true or false, got 1"),
    (bool, "yes", 'it: expected true or false, got "yes"'),
    (str, True, "it: expected text, got true"),
    (str, 1.5, "it: expected text, got 1.5"),
    (str, None, "it: expected text, got null"),
    (datetime.datetime, 5, "it: expected a date and time such as 2026-11-30T09:30:00Z, got 5"),
    (
        datetime.datetime,
        "2026-11-30",
        'it: expected a date and time such as 2026-11-30T09:30:00Z, got "2026-11-30"',
    ),
    (datetime.date, "30.11.2026", 'it: expected a date such as 2026-11-30, got "30.11.2026"'),
    (decimal.Decimal, "NaN", 'it: expected a decimal number, got "NaN"'),
    (bytes, "!", 'it: expected bytes in base64, got "!"'),
    (uuid.UUID, "x", 'it: expected a UUID, got "x"'),
    (Literal["x", "y"], "z", 'it: expected one of "x", "y", got "z"'),
    (Literal[1], True, "it: expected one of 1, got true"),
    (Color, "RED", 'it: expected one of "red", "blue", got "RED"'),
    (list[int], {"a": 1}, 'it: expected a list, got {"a": 1}'),
    (list[int], "[1,", 'it: expected a list, got "[1,"'),
    (
        list[int],
        [1, "a", 2, None],
        'it[1]: expected an integer, got "a"\nit[3]: expected an integer, got null',
    ),
    (tuple[int, str], [1], "it: expected a list of 2: an integer, text, got [1]"),
    (set[Any], [[1]], "it: unhashable type: 'list'"),
    (dict[str, int], {"a b": "c"}, 'it["a b"]: expected an integer, got "c"'),
    (dict[int, int], {"a": 1}, 'the key of it.a: expected an integer, got "a"'),
    (dict[float, int], {"1": 1, "1.0": 2}, 'it: two of its keys mean the same: "1", "1.0"'),
    (int | None, "a", 'it: expected an integer or null, got "a"'),
    (Point | None, {"x": "a"}, 'it.x: expected an integer, got "a"'),
    (Point, {"z": 1}, "it.z: there is no such key; there is x, y\nit.x: it is missing; expected an integer"),
    (Point, {"x": 1, "yy": 1}, "it.yy: there is no such key; did you mean y?"),
    (Point, 5, "it: expected an object with x, y, got 5"),
    (Even, {"number": 3}, "it: the number must be even"),
    (Cat, {"type": "dog"}, 'it: expected an object with nineLives whose type is "cat", got {"type": "dog"}'),
    (Row, [1], "it: Expected `array` of at least length 2, got 1"),
    (Model, {"size": 1, "part": {"size": "x"}}, None),
    (
        Annotated[datetime.time, msgspec.Meta(tz=True)],
        "09:30:00",
        'it: expected a time such as 09:30:00 with a time zone, got "09:30:00"',
    ),
    (
        Annotated[datetime.time, msgspec.Meta(tz=False)],
        "09:30:00Z",
        'it: expected a time such as 09:30:00 without a time zone, got "09:30:00Z"',
    ),
    (Annotated[decimal.Decimal, msgspec.Meta(gt=0)], "-1", 'it: expected a decimal number over 0, got "-1"'),
    (Annotated[int, msgspec.Meta(ge=3)], 2, "it: expected an integer of at least 3, got 2"),
    (Annotated[str, pydantic.Field(pattern="^a")], "b", 'it: expected text that matches ^a, got "b"'),
    (
        Annotated[list[int], annotated_types.Len(1, 2)],
        [],
        "it: expected a list of length 1 or more and of length 2 or less, got []",
    ),
]


@pytest.mark.parametrize(("wanted", "given", "problem"), REFUSED, ids=numbered(REFUSED))
def test_a_value_that_does_not_fit_is_refused_in_words(wanted: Any, given: Any, problem: str | None) -> None:
    with pytest.raises(Misfits) as caught:
        converted(form_of(wanted), given, "it")
    assert problem is None or str(caught.value) == problem


def test_what_pydantic_refuses_has_its_place_too() -> None:
    with pytest.raises(Misfits, match=r"^it\.part\.size: Input should be a valid integer.*, got \"x\"$"):
        converted(form_of(Model), {"size": 1, "part": {"size": "x"}}, "it")


def test_an_error_of_a_class_that_cannot_say_what_it_is_is_still_a_misfit() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @dataclasses.dataclass
    class Broken:
        def __post_init__(self) -> None:
            raise Mute

    with pytest.raises(Misfits, match="its text raised RuntimeError"):
        converted(form_of(Broken), {}, "it")


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (complex, "complex has no form in JSON: use a dataclass, a TypedDict"),
        (collections.abc.Callable, "Callable has no form in JSON"),
        (type[int], "has no form in JSON"),
        (Endless[int], r"Endless\[int\] is nested without end"),
        (Shape, "Shape is abstract: use a class that can be made"),
        (Own, "Own cannot be made from its fields: missing a required argument: 'other'"),
        (set[list[int]], r"a set cannot hold list\[int\], which has no hash: use list\[list\[int\]\]"),
        (set[Point], r"a set cannot hold Point, which has no hash: use list\[Point\]"),
        (dict[Point, int], "the keys of an object are text in JSON: Point cannot be a key"),
        (dict[Annotated[list[int], "x"], int], "cannot be a key"),
        (dict[int | Point, int], "cannot be a key"),
        (enum.Enum("Empty", {}), "Empty has no values"),
        (enum.Enum("Same", {"A": (1,), "B": [1]}), "Same has no values, or two of the same form in JSON"),
        (Annotated[bool, msgspec.Meta(min_length=3)], "the limit min_length does not apply to true or false"),
        (Annotated[Point, msgspec.Meta(ge=3)], "the limit ge does not apply to an object with x, y"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_a_type_without_a_form_says_why(wanted: Any, problem: str) -> None:
    with pytest.raises(Indescribable, match=problem):
        form_of(wanted)


def test_a_field_of_a_class_without_a_form_is_named() -> None:
    @dataclasses.dataclass
    class Job:
        run: collections.abc.Callable[[], int]

    with pytest.raises(Indescribable, match=r"'run' of Job: .*Callable.* has no form in JSON"):
        form_of(Job)


def test_a_recursive_class_is_a_part_that_refers_to_itself() -> None:
    form = form_of(Node)
    reference = {"$ref": "#/$defs/Node"}
    body = closed(["value"], value=INT, inner=array(reference))
    assert schema_of(form) == {**body, "$defs": {"Node": body}}
    given = {"value": 1, "inner": [{"value": 2, "inner": [{"value": 3}]}]}
    assert converted(form, given) == Node(1, [Node(2, [Node(3)])])


def test_a_recursive_alias_is_a_part_that_refers_to_itself() -> None:
    form = form_of(Json, Scope(globals(), {}))
    reference = {"$ref": "#/$defs/Json"}
    body = {"anyOf": [{"type": "object", "additionalProperties": reference}, array(reference), TEXT, NULL]}
    assert schema_of(form) == {**body, "$defs": {"Json": body}}
    assert converted(form, {"a": [None, {"b": "c"}]}) == {"a": [None, {"b": "c"}]}
    with pytest.raises(Misfits):
        converted(form, {"a": [1.5]})


def test_a_recursive_pydantic_model_is_a_part_like_any_other() -> None:
    reference = {"$ref": "#/$defs/Model"}
    schema = schema_of(form_of(tuple[Model, Model]))
    assert schema["prefixItems"] == [reference, reference]
    assert schema["$defs"]["Model"]["properties"]["part"]["anyOf"] == [reference, NULL]
    assert schema_of(form_of(Model))["type"] == "object"


def test_a_class_that_is_used_twice_is_one_part() -> None:
    schema = schema_of(form_of(tuple[Point, Annotated[Point, "the end"]]))
    reference = {"$ref": "#/$defs/Point"}
    assert schema["prefixItems"] == [reference, {"anyOf": [reference], "description": "the end"}]
    assert schema["$defs"] == {"Point": POINT}


def test_two_classes_of_one_name_are_two_parts() -> None:
    mine = Node

    def other() -> type:
        @dataclasses.dataclass
        class Node:
            inner: Node | None

        return Node

    schema = schema_of(form_of(tuple[mine, other()]))
    assert list(schema["$defs"]) == ["Node", "Node_2"]


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    class Odd(TypedDict):
        default: Node
        enum: Node

    schema = schema_of(form_of(Odd, Scope(globals(), locals())))
    assert schema["properties"] == {"default": {"$ref": "#/$defs/Node"}, "enum": {"$ref": "#/$defs/Node"}}


def test_a_name_that_is_not_there_is_named() -> None:
    @dataclasses.dataclass
    class Job:
        owner: Nobody  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(
        Unresolved, match="the annotation Nobody does not resolve: name 'Nobody' is not defined"
    ):
        form_of(Job)


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for level in range(depth):
        value = {"inner": value, "left" if level % 2 else "right": level}
    return value


def test_unions_in_unions_take_no_exponential_time() -> None:
    form = form_of(Left | Right)
    made = converted(form, nested(100, None))
    assert isinstance(made, Left)
    with pytest.raises(Misfits):
        converted(form, nested(100, "wrong"))


def test_the_same_value_at_two_places_is_told_of_at_both() -> None:
    with pytest.raises(Misfits) as caught:
        converted(form_of(list[int | None]), ["a", "a", [], []], "it")
    assert [line.partition(":")[0] for line in caught.value.lines] == ["it[0]", "it[1]", "it[2]", "it[3]"]


def test_nesting_that_is_too_deep_to_convert_is_a_misfit() -> None:
    value: Any = None
    for _ in range(5_000):
        value = [value]
    with pytest.raises(Misfits, match="it: it is nested too deep"):
        converted(form_of(Json, Scope(globals(), {})), value, "it")


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (int, 5, 5),
        (list[int], (1, 2), [1, 2]),
        (set[int], {2, 1}, [1, 2]),
        (Color, Color.RED, "red"),
        (Span, Span(1), {"start": 1, "end": 9}),
        (Point, Point(1), msgspec.UNSET),
        (Any, {"a": [None]}, {"a": [None]}),
        (Any, object(), msgspec.UNSET),
        (Any, datetime.date(2026, 11, 30), msgspec.UNSET),
        (float, float("nan"), msgspec.UNSET),
        (int, "five", msgspec.UNSET),
    ],
    ids=range(11),
)
def test_a_default_is_in_the_schema_where_json_has_a_form_of_it(
    annotation: Any, default: Any, expected: Any
) -> None:
    assert json_default(form_of(annotation), default) == expected
