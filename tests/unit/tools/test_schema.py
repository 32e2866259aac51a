"""Scenario B068: annotations that are text, Optional and defaults, Literal, Enum, Annotated, nested models."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import sys
import types
from typing import Annotated, Any, Literal, Optional

import msgspec
import pydantic
import pytest

from segue.errors import DefinitionError
from segue.tools.tool import as_tool, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool
def paint(
    g: Optional[str],  # noqa: UP045
    h: datetime.datetime,
    untyped,  # type: ignore[no-untyped-def]
    a: int | None = None,
    b: Literal["x", "y"] = "x",
    c: Color = Color.RED,
    d: Annotated[float, "unit: m"] = 1.5,
    e: list[Point] = (),  # type: ignore[assignment]
    f: Annotated[int, pydantic.Field(ge=1, description="how often")] = 1,
) -> str:
    """Paint it.

    Args:
        d: How wide.
        e: Where.
    """
    return f"{g} {h:%H} {untyped} {a} {b} {c.value} {d} {e} {f}"


def test_a_signature_becomes_one_schema() -> None:
    integer, text, null = {"type": "integer"}, {"type": "string"}, {"type": "null"}
    assert paint.parameters == {
        "type": "object",
        "properties": {
            "g": {"anyOf": [text, null]},
            "h": text | {"format": "date-time"},
            "untyped": {},
            "a": {"anyOf": [integer, null], "default": None},
            "b": text | {"enum": ["x", "y"], "default": "x"},
            "c": text | {"enum": ["red", "blue"], "default": "red"},
            "d": {"type": "number", "description": "How wide.\nunit: m", "default": 1.5},
            "e": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"x": integer, "y": integer | {"default": 0}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
                "description": "Where.",
                "default": [],
            },
            "f": integer | {"minimum": 1, "description": "how often", "default": 1},
        },
        "required": ["g", "h", "untyped"],
        "additionalProperties": False,
    }


def test_the_call_gets_values_of_the_annotated_types() -> None:
    given = {"g": None, "h": "2026-11-30T09:30:00Z", "untyped": [1], "c": "blue", "e": [{"x": 1}], "a": 3}
    assert paint(**paint.bind(json.dumps(given))) == "None 09 [1] 3 x blue 1.5 [Point(x=1, y=0)] 1"


def test_a_class_that_is_local_to_the_function_around_is_found() -> None:
    @dataclasses.dataclass
    class Local:
        inner: Local | None = None

    @tool
    def use(i: Local, more: list[Local]) -> Any:
        return i, more

    assert use(**use.bind('{"i": {"inner": {}}, "more": [{}]}')) == (Local(Local()), [Local()])


def made_elsewhere() -> Any:
    @dataclasses.dataclass
    class Kept:
        name: str

    @tool
    def use(kept: Kept) -> str:
        return kept.name

    def plain(kept: Kept) -> Any:
        return isinstance(kept, Kept)

    return use, plain


def test_a_local_class_is_found_after_its_function_has_returned() -> None:
    use, plain = made_elsewhere()
    assert use(**use.bind('{"kept": {"name": "a"}}')) == "a"
    made = as_tool(plain)  # the class is in the function's closure
    assert made(**made.bind('{"kept": {"name": "a"}}')) is True


ELSEWHERE = """
from __future__ import annotations
import dataclasses
from decimal import Decimal as Number

@dataclasses.dataclass
class Price:
    amount: Number
"""


def test_a_local_name_is_not_taken_for_one_of_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("elsewhere")
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    exec(ELSEWHERE, vars(module))
    Price, Number = module.Price, int

    def use(price: Price, count: Number) -> None:  # type: ignore[valid-type]
        """Use."""

    bound = as_tool(use).bind('{"price": {"amount": "1.50"}, "count": 2}')
    assert bound == {"price": Price(decimal.Decimal("1.50")), "count": 2}


def test_a_pydantic_field_as_a_default_is_refused_with_the_way_to_write_it() -> None:
    def find(limit: int = pydantic.Field(3, ge=1)) -> None:
        """Find."""

    with pytest.raises(
        DefinitionError, match=r"the default of 'limit' is a pydantic Field: write limit: Annotated"
    ):
        as_tool(find)


def test_the_description_of_a_class_is_its_docstring_and_that_of_a_field_its_line() -> None:
    @dataclasses.dataclass
    class Order:
        """What to buy.

        Attributes:
            count: how many
        """

        count: int

    def buy(order: Order) -> None:
        """Buy."""

    assert as_tool(buy).parameters["properties"]["order"] == {
        "description": "What to buy.",
        "type": "object",
        "properties": {"count": {"type": "integer", "description": "how many"}},
        "required": ["count"],
        "additionalProperties": False,
    }
