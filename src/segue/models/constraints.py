"""How a local model is held to a form: a grammar for choices, one JSON schema for structured replies and tool
calls."""

from __future__ import annotations

import json
from typing import Any

from segue.models.protocol import ModelRequest
from segue.typed.schemas import Definitions

LONGEST_TEXT = 2000
"""Characters of a string in a structured reply, where the schema gives no limit: a small model may never
close it."""
MOST_ITEMS = 16
"""Items of an array, likewise."""


def constraint_of(request: ModelRequest) -> dict[str, Any]:
    """What to add to llama.cpp's request so that the reply can only have the form that is asked for."""
    if request.tools:
        return _json_reply(tool_schema(request.tools, request.schema))
    if request.choices:
        return {"grammar": choice_grammar(request.choices)}
    return {} if request.schema is None else _json_reply(request.schema)


def choice_grammar(choices: list[str]) -> str:
    """A GBNF grammar of exactly these texts."""
    return "root ::= " + " | ".join(_literal(choice) for choice in choices)


def tool_schema(tools: list[dict[str, Any]], reply: dict[str, Any] | None) -> dict[str, Any]:
    """Either one call, `{"tool": NAME, "arguments": {...}}`, or `{"reply": ...}`."""
    definitions = Definitions()  # two tools may each have a part of the same name
    forms = [_call_form(tool["function"], definitions) for tool in tools]
    form = definitions.adopt(reply or {"type": "string"})
    return definitions.finish({"anyOf": [*forms, _object(reply=form)]})


def tool_instructions(tools: list[dict[str, Any]]) -> str:
    """What the system message says about tools, for models whose template has no place for them."""
    listed = "\n".join(_describe(tool["function"]) for tool in tools)
    return (
        'You can call a tool by answering {"tool": its name, "arguments": {...}}, or answer the user with'
        f' {{"reply": your text}}. The tools:\n{listed}'
    )


def bounded(schema: Any) -> Any:
    """The schema with limits on the texts and arrays that have none."""
    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: part if name in {"enum", "const", "default"} else bounded(part) for name, part in schema.items()
    }
    if made.get("type") == "string" and not made.keys() & {"maxLength", "enum", "const", "pattern", "format"}:
        made["maxLength"] = max(LONGEST_TEXT, made.get("minLength", 0))
    if made.get("type") == "array" and "maxItems" not in made:
        made["maxItems"] = max(MOST_ITEMS, made.get("minItems", 0))
    return made


def _json_reply(schema: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "reply", "schema": bounded(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def _call_form(function: dict[str, Any], definitions: Definitions) -> dict[str, Any]:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return _object(tool={"const": function["name"]}, arguments=definitions.adopt(parameters))


def _object(**properties: Any) -> dict[str, Any]:
    closed = {"type": "object", "properties": properties, "required": list(properties)}
    return closed | {"additionalProperties": False}


def _describe(function: dict[str, Any]) -> str:
    schema = function.get("parameters", {})
    listed = f"- {function['name']}: {function.get('description', '')} Arguments: {_text(schema.get('properties', {}))}"
    return f"{listed} where $defs are {_text(schema['$defs'])}" if "$defs" in schema else listed


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False)
