"""Showing people text that models and tools wrote: nothing in it may act on the terminal."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import click
from rich.console import Console, RenderableType

from segue.events.codec import encode_json

PLAIN_WIDTH = 120
"""Columns when the output is no terminal."""
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that do not show, or act: controls, directions, surrogates, unassigned, separators."""
_JOINERS = "\u200c\u200d"
"""Part of emoji and of Persian and Indian words."""


def visible(text: str, *, lines: bool = False) -> str:
    """Control, escape and direction characters as `\\x1b` and the like; line ends and tabs are kept with `lines`."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(char if char in kept or not _hidden(char) else _named(char) for char in text)


def shortened(text: str, length: int) -> str:
    """One line of at most `length` characters, made visible."""
    line = visible(" ".join(text[: length * 4].split(" ")))
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[: length - 1]}…"


def show(renderable: RenderableType, *, wrap: bool = True) -> None:
    """On standard output; as wide as the terminal, or as 120 columns. Without `wrap`, long lines stay as they are."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False)
    console.print(renderable, soft_wrap=not wrap)


def print_json(value: Any) -> None:
    click.echo(encode_json(value).decode())


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _JOINERS


def _named(char: str) -> str:
    named = char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return named if named != char else f"\\u{ord(char):04x}"
