from __future__ import annotations

import collections
import dataclasses
import enum
import json
import types
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pytest

from segue.errors import IntegerTooLarge, ValueTooDeep
from segue.events.json_values import to_json


class Colour(enum.Enum):
    RED = ("r", 1)


class Level(enum.IntEnum):
    HIGH = 5


class Mode(enum.StrEnum):
    FAST = "fast"


@dataclasses.dataclass
class Point:
    x: int
    y: Any = float("nan")


class Pair(NamedTuple):
    a: int
    b: str


class Renamed(msgspec.Struct, rename="camel", tag="renamed"):
    some_field: Any
    absent: Any = msgspec.UNSET


class AsArray(msgspec.Struct, array_like=True):
    a: int
    b: Decimal


class Model(pydantic.BaseModel):
    n: float
    colour: Colour = Colour.RED


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __eq__(self, other: object) -> bool:
        raise ValueError("no equality")

    __hash__ = None  # type: ignore[assignment]


class BrokenMapping(collections.UserDict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("gone")


class BrokenText(str):
    def __str__(self) -> str:
        raise ValueError("no text")


class Text(str):
    pass


class Opaque:
    pass


class Failing(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"a": [1, True, "x", -0.5]}, {"a": [1, True, "x", -0.5]}),
        (float("nan"), "NaN"),
        ({"x": [float("inf"), float("-inf")]}, {"x": ["Infinity", "-Infinity"]}),
        (datetime(2024, 1, 1, 2, 3, tzinfo=UTC), "2024-01-01T02:03:00+00:00"),
        (datetime(2024, 1, 1), "2024-01-01T00:00:00"),
        (date(2024, 1, 1), "2024-01-01"),
        (time(1, 2, 3), "01:02:03"),
        (timedelta(days=1, seconds=2.5), "P1DT2.5S"),
        (Decimal("0.10"), "0.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (b"\xff\x00", {"$bytes": "/wA="}),
        (bytearray(b"a"), {"$bytes": "YQ=="}),
        (Colour.RED, ["r", 1]),
        ([Level.HIGH, Mode.FAST], [5, "fast"]),
        (Point(1), {"x": 1, "y": "NaN"}),
        (Pair(1, "b"), [1, "b"]),
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a", 1}), ["a", "b", 1]),
        (Renamed(some_field=b"a"), {"type": "renamed", "someField": {"$bytes": "YQ=="}}),
        (AsArray(1, Decimal("2.0")), [1, "2.0"]),
        (Model(n=float("inf")), {"n": "Infinity", "colour": ["r", 1]}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.UserDict(a=(1,)), {"a": [1]}),
        (types.MappingProxyType({"a": {1}}), {"a": [1]}),
        (collections.deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (
            {1: "a", None: "b", 2.5: "c", ("x", "y"): "d"},
            {"1": "a", "null": "b", "2.5": "c", '["x","y"]': "d"},
        ),
        ({True: 1, date(2024, 1, 1): 2}, {"true": 1, "2024-01-01": 2}),
        ({1: "a", "1": "b"}, {"$pairs": [[1, "a"], ["1", "b"]]}),
        ({True: "a", "true": (1,)}, {"$pairs": [[True, "a"], ["true", [1]]]}),
        (ValueError("bad"), {"type": "ValueError", "message": "bad"}),
        (Failing(), {"type": "Failing", "message": "its text raised ValueError"}),
        (Text("x"), "x"),
        (BrokenText("kept"), "kept"),
        (Broken(), "<Broken: its repr raised ValueError>"),
        ([Broken()], ["<Broken: its repr raised ValueError>"]),
        (BrokenMapping(), "{}"),
        (Opaque, f"<class '{Opaque.__module__}.Opaque'>"),
        ("\ud83d\ude00\ud800", "\U0001f600\ud800"),
        pytest.param(10**9_999, 10**9_999, id="10,000 digits"),
    ],
)
def test_every_kind_of_value_has_one_json_form(value: Any, expected: Any) -> None:
    assert to_json(value) == expected


def test_an_unknown_object_is_its_repr_without_the_address() -> None:
    assert to_json(Opaque()).endswith("Opaque object>")
    assert to_json(Opaque()) == to_json(Opaque())


def test_a_long_repr_is_cut_and_says_its_length() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 20_000

    assert to_json(Long()) == "x" * 10_000 + "... (20,000 characters)"


def test_a_container_inside_itself_is_marked_with_how_far_up_it_is() -> None:
    cycle: list[Any] = [1]
    cycle.append({"again": cycle})
    cycle.append(cycle)
    assert to_json(cycle) == [1, {"again": {"$cycle": 2}}, {"$cycle": 1}]


def test_a_container_used_twice_is_no_cycle() -> None:
    shared = (1,)
    assert to_json([shared, shared]) == [[1], [1]]


def test_a_plain_value_is_not_shared_with_its_json_form() -> None:
    value = {"a": [1]}
    converted = to_json(value)
    value["a"].append(2)
    assert converted == {"a": [1]}


def nested(levels: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: Point(1, v)],
    ids=["lists", "tuples", "objects", "dataclasses"],
)
def test_200_levels_are_converted_and_one_more_is_too_deep(wrap: Any) -> None:
    assert json.dumps(to_json(nested(200, wrap)), allow_nan=False).count("1") >= 1
    with pytest.raises(ValueTooDeep):
        to_json(nested(201, wrap))


def test_an_endless_model_is_too_deep() -> None:
    class Endless:
        def model_dump(self, *, by_alias: bool) -> dict[str, Any]:
            return {"next": Endless()}

    with pytest.raises(ValueTooDeep):
        to_json(Endless())


def test_an_integer_of_more_than_10_000_digits_is_too_large() -> None:
    with pytest.raises(IntegerTooLarge):
        to_json({"a": (10**10_000,)})
