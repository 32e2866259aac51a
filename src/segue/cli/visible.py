"""Text that models and tools wrote, as people may see it: nothing in it acts on the terminal."""

from __future__ import annotations

import contextlib
import re
import unicodedata

import click

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that do not show, or act: controls, directions, tags, surrogates, unassigned, separators."""
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
"""Letters, marks and symbols that show nothing."""
_JOINERS = "\u200c\u200d"
"""Part of emoji and of Persian and Indian words; nothing anywhere else."""
_MOST_MARKS = 4
"""Combining marks on one letter; more of them would be painted over the lines around it."""
_FOREIGN = {"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LISU"}
"""Scripts with letters that look like Latin ones."""
_WORD = re.compile(r"\w+")


def visible(text: str, *, lines: bool = False) -> str:
    """What hides or acts, as `\\x1b` and the like: control, escape, direction, zero-width and tag characters, variation
    selectors, piles of combining marks. Line ends and tabs are kept with `lines`."""
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    shown, marks = [], 0
    for at, char in enumerate(text):
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        hides = marks > _MOST_MARKS or _hidden(char, text[at - 1 : at], text[at + 1 : at + 2])
        shown.append(_named(char) if hides and char not in kept else char)
    return "".join(shown)


def exact(text: str) -> str:
    """One line in which also what only looks like something else is shown as what it is: other spaces, and letters of
    another script or form within a Latin word."""
    return _WORD.sub(
        _unmixed, "".join(_named(char) if _is_other_space(char) else char for char in visible(text))
    )


def shortened(text: str, length: int) -> str:
    """One line of at most `length` characters, made visible."""
    line = visible(" ".join(text[: length * 4].split(" ")))
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[: length - 1]}…"


def say(text: str) -> None:
    """On standard error, made visible: errors may quote a model. A standard error that takes nothing, because its disk
    is full or its reader left, stops no work."""
    with contextlib.suppress(OSError):
        click.echo(visible(text, lines=True), err=True)


def _hidden(char: str, before: str, after: str) -> bool:
    if char in _JOINERS:
        return not (_joins(before) and _joins(after))
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return not (char in "\ufe0e\ufe0f" and _takes_variation(before, after))
    return char in _BLANK or unicodedata.category(char) in _HIDDEN


def _joins(char: str) -> bool:
    """Emoji, their skin colours and variations, and letters of scripts that have joiners."""
    is_emoji = char in ("\ufe0f", "\u2640", "\u2642") or (
        char != "" and unicodedata.category(char) in ("So", "Sk")
    )
    return is_emoji or (char != "" and "\u0600" <= char <= "\u109f" and char not in _BLANK)


def _takes_variation(before: str, after: str) -> bool:
    if before == "":
        return False
    return unicodedata.category(before) in ("So", "Sm") or (before in "0123456789#*" and after == "\u20e3")


def _is_other_space(char: str) -> bool:
    return char != " " and unicodedata.category(char) == "Zs"


def _unmixed(word: re.Match[str]) -> str:
    text = word[0]
    if text.isascii() or not any(_script(char) == "LATIN" or _is_disguised(char) for char in text):
        return text
    return "".join(
        _named(char) if _script(char) in _FOREIGN or _is_disguised(char) else char for char in text
    )


def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _is_disguised(char: str) -> bool:
    """A letter or digit of ASCII in another form: wide, bold, circled."""
    plain = unicodedata.normalize("NFKC", char)
    return char != plain and plain.isascii() and plain.isalnum()


def _named(char: str) -> str:
    named = char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return named if named != char else f"\\u{ord(char):04x}"
