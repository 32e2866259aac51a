"""Schemas and grammars that hold a reply to its form."""

from __future__ import annotations

from typing import Any

import pytest

from segue.models.constraints import bounded, choice_grammar, constraint_of, tool_instructions, tool_schema
from segue.models.protocol import ModelRequest
from segue.models.schemas import strict_schema

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": CITY}}


def test_a_grammar_is_exactly_the_choices_escaped() -> None:
    assert choice_grammar(["yes", 'say "no"', "a\\b", "two\nlines"]) == (
        'root ::= "yes" | "say \\"no\\"" | "a\\\\b" | "two\\nlines"'
    )


def test_a_request_for_text_is_not_constrained() -> None:
    assert constraint_of(ModelRequest(messages=[])) == {}


def test_texts_and_arrays_without_limits_get_some() -> None:
    schema = {
        "type": "object",
        "properties": {
            "free": {"type": "string"},
            "short": {"type": "string", "maxLength": 3},
            "one": {"type": "string", "enum": ["a"]},
            "long": {"type": "string", "minLength": 5000},
            "list": {"type": "array", "items": {"type": "string"}},
        },
    }
    assert bounded(schema)["properties"] == {
        "free": {"type": "string", "maxLength": 2000},
        "short": {"type": "string", "maxLength": 3},
        "one": {"type": "string", "enum": ["a"]},
        "long": {"type": "string", "minLength": 5000, "maxLength": 5000},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 2000}, "maxItems": 16},
    }


def test_tools_become_one_schema_of_calls_or_a_reply() -> None:
    call = {"tool": {"const": "weather"}, "arguments": CITY}
    assert tool_schema([TOOL], None) == {
        "anyOf": [
            {
                "type": "object",
                "properties": call,
                "required": ["tool", "arguments"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"reply": {"type": "string"}},
                "required": ["reply"],
                "additionalProperties": False,
            },
        ]
    }


def taking(part: dict[str, Any]) -> dict[str, Any]:
    """A tool whose parameters refer to a recursive part named P."""
    properties = {"p": {"$ref": "#/$defs/P"}}
    parameters = {"type": "object", "properties": properties, "$defs": {"P": part}}
    return {"type": "function", "function": {"name": "f", "description": "F.", "parameters": parameters}}


def test_parts_of_the_same_name_in_two_tools_stay_apart() -> None:
    lists, maps = (
        {"type": "array", "items": {"$ref": "#/$defs/P"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/P"}},
    )
    schema = tool_schema([taking(lists), taking(maps)], None)
    used = [form["properties"]["arguments"]["properties"]["p"] for form in schema["anyOf"][:2]]
    assert used == [{"$ref": "#/$defs/P"}, {"$ref": "#/$defs/P_2"}]
    assert schema["$defs"] == {
        "P": lists,
        "P_2": {"type": "object", "additionalProperties": {"$ref": "#/$defs/P_2"}},
    }


def test_a_description_of_parameters_has_the_parts_that_they_refer_to() -> None:
    assert tool_instructions([taking({"type": "null"})]).splitlines()[-1] == (
        '- f: F. Arguments: {"p": {"$ref": "#/$defs/P"}} where $defs are {"P": {"type": "null"}}'
    )


def test_tools_are_described_to_a_model_whose_template_has_no_place_for_them() -> None:
    assert tool_instructions([TOOL]).splitlines()[-1] == (
        '- weather: Of a city. Arguments: {"city": {"type": "string"}}'
    )


def test_a_schema_is_closed_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    outer = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": inner}},
        "required": ["all"],
    }
    closed = {**inner, "additionalProperties": False}
    assert strict_schema(outer) == {
        "type": "object",
        "properties": {"all": {"type": "array", "items": closed}},
        "required": ["all"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": []},
        {"type": "object"},
        {
            "type": "object",
            "properties": {"n": {}},
            "required": ["n"],
            "additionalProperties": {"type": "null"},
        },
    ],
)
def test_a_schema_that_closing_would_change_stays_open(part: dict[str, Any]) -> None:
    outer = {"type": "object", "properties": {"part": {"anyOf": [part]}}, "required": ["part"]}
    assert strict_schema(outer) is None
