"""Docstrings in the styles of Google, NumPy and Sphinx: the text, and what it says about each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import docstring_parser
import msgspec

_GOOGLE = re.compile(r"(Args|Arguments|Parameters|Params|Attributes|Keyword Args|Other Parameters):\s*")
_NUMPY = re.compile(r"(Parameters|Params|Arguments|Attributes|Other Parameters)\s*")
_SPHINX = re.compile(r":(param|parameter|arg|argument|key|keyword|type|ivar|var|cvar|attribute)\b[^:]*:")
_RULE = re.compile(r"-{3,}\s*")


class Documented(msgspec.Struct, frozen=True):
    text: str
    """Without the sections about parameters."""
    parameters: dict[str, str]


def documented(doc: object) -> Documented:
    """Never fails: a docstring that is in no known style is text, and one that is no text is none."""
    text = inspect.cleandoc(doc) if isinstance(doc, str) else ""
    return Documented(_without_parameters(text), _parameters(text))


def _parameters(text: str) -> dict[str, str]:
    try:
        found = docstring_parser.parse(f"Summary.\n\n{text}").params  # it takes the first paragraph for one
    except Exception:  # its parsers are for well-formed text
        return {}
    return {
        name.lstrip("*"): " ".join(entry.description.split())
        for entry in found
        for name in entry.arg_name.split(", ")
        if entry.description
    }


def _without_parameters(text: str) -> str:
    kept = "\n".join(_kept(text.splitlines()))
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _kept(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = _end_of_section(lines, at)
        if end == at:
            yield lines[at]
            end = at + 1
        at = end


def _end_of_section(lines: list[str], at: int) -> int:
    """Where the section about parameters that begins here ends; `at` itself when none does."""
    line = lines[at]
    if _GOOGLE.fullmatch(line) or _SPHINX.match(line):
        return _end_of_indented(lines, at + 1)
    if _NUMPY.fullmatch(line) and _is_rule(lines, at + 1):
        end = at + 2
        while end < len(lines) and not (lines[end].strip() and _is_rule(lines, end + 1)):
            end += 1
        return end
    return at


def _end_of_indented(lines: list[str], at: int) -> int:
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return at


def _is_rule(lines: list[str], at: int) -> bool:
    return at < len(lines) and _RULE.fullmatch(lines[at]) is not None
