"""Text that models and tools wrote, as people may see it: nothing in it acts on the terminal."""

from __future__ import annotations

import contextlib
import unicodedata

import click

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


def say(text: str) -> None:
    """On standard error, made visible: errors may quote a model. A standard error that takes nothing, because its disk
    is full or its reader left, stops no work."""
    with contextlib.suppress(OSError):
        click.echo(visible(text, lines=True), err=True)


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _JOINERS


def _named(char: str) -> str:
    named = char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return named if named != char else f"\\u{ord(char):04x}"
