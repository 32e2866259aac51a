"""What a model's reply must be (one of some choices, or a value of a schema), and how its text becomes that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from segue.errors import DefinitionError, InvalidReply
from segue.events.codec import encode_json
from segue.typed.annotations import Unresolved
from segue.typed.build import form_of
from segue.typed.forms import Anything, Form, Indescribable, Misfits, converted, schema_of
from segue.typed.strict_json import NotJson, read_json


class Wanted(Protocol):
    """A form the reply must have. `ask` is added to the prompt, `again` is said after a reply that does not fit."""

    choices: list[str]
    schema: dict[str, Any] | None
    ask: str
    again: str

    def parse(self, text: str) -> Any:
        """The value in the reply. Raises `InvalidReply` saying what is wrong."""
        ...


class AnyText:
    choices: list[str] = []
    schema: dict[str, Any] | None = None
    ask = ""
    again = ""

    def parse(self, text: str) -> str:
        return text


class Choices:
    schema: dict[str, Any] | None = None

    def __init__(self, choices: Sequence[str]) -> None:
        self.choices = list(choices)
        folded = {choice.strip().casefold() for choice in self.choices}
        if not self.choices or len(folded) != len(self.choices) or "" in folded:
            raise DefinitionError(
                f"choices must be at least one text, all different and not blank: {self.choices}"
            )
        listed = "\n".join(f"- {choice}" for choice in self.choices)
        self.ask = f"Answer with exactly one of these and nothing else:\n{listed}"
        self.again = f"That is none of the choices. {self.ask}"

    def parse(self, text: str) -> str:
        """The choice that the reply is, or the only one that it names as whole words."""
        bare = text.strip().strip("\"'`*.!-: \n").casefold()
        for choice in self.choices:
            if choice.strip().casefold() == bare:
                return choice
        named = [choice for choice in self.choices if _names(text, choice)]
        named = [
            choice
            for choice in named
            if not any(choice != other and _names(other, choice) for other in named)
        ]
        if len(named) == 1:
            return named[0]
        raise InvalidReply(f"the reply is none of {self.choices}: {text[:200]!r}", reply=text)


class OfSchema:
    """A JSON value of a type that `segue.typed` knows, or of a JSON schema given as a dict."""

    choices: list[str] = []

    def __init__(self, wanted: Any) -> None:
        self._form: Form = Anything() if isinstance(wanted, dict) else _form_of(wanted)
        inner = wanted if isinstance(wanted, dict) else schema_of(self._form)
        self._wrapped = inner.get("type") != "object"
        self.schema: dict[str, Any] | None = _wrap(inner) if self._wrapped else inner
        text = encode_json(self.schema).decode()
        self.ask = f"Answer with one JSON object of this schema and nothing else:\n{text}"
        self.again = f"That does not fit. {self.ask}"

    def parse(self, text: str) -> Any:
        try:
            value = read_json(_json_text(text))
            if self._wrapped:
                value = value["value"]
            return converted(self._form, value)
        except (NotJson, Misfits, KeyError, TypeError) as error:
            raise InvalidReply(
                f"the reply is not of the schema: {error}: {text[:200]!r}", reply=text
            ) from error


def wanted_form(choices: Sequence[str] | None, schema: Any) -> Wanted:
    if choices is not None and schema is not None:
        raise DefinitionError("exec takes choices or a schema, not both")
    if choices is not None:
        return Choices(choices)
    return AnyText() if schema is None else OfSchema(schema)


def _names(text: str, choice: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(choice.strip())}(?!\w)", text, re.IGNORECASE) is not None


def _json_text(text: str) -> str:
    """The reply without a Markdown fence around it."""
    fenced = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", text, re.DOTALL)
    return fenced[1] if fenced else text.strip()


def _form_of(wanted: Any) -> Form:
    try:
        return form_of(wanted)
    except (Indescribable, Unresolved) as error:
        raise DefinitionError(f"schema={wanted!r} cannot be described as a JSON schema: {error}") from error


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    value = {key: part for key, part in schema.items() if key != "$defs"}
    return {"type": "object", "properties": {"value": value}, "required": ["value"], **definitions}
