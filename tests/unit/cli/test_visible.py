"""Text of models and tools is made visible, never acted on."""

from __future__ import annotations

import pytest

from segue.cli.visible import shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words", "plain words"),
        ("Größe 😀 日本", "Größe 😀 日本"),
        ("👩\u200d🚒 می\u200cخواهم", "👩\u200d🚒 می\u200cخواهم"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\rb", "a\\rb"),
        ("a\x00b\x7f", "a\\x00b\\x7f"),
        ("left\u202eright", "left\\u202eright"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028end", "line\\u2028end"),
        ("csi \x9b2J", "csi \\x9b2J"),
        ("half \ud800", "half \\ud800"),
        ("a\nb\tc", "a\\nb\\tc"),
    ],
)
def test_what_hides_or_acts_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_ends_and_tabs_can_be_kept() -> None:
    assert visible("a\n\tb\x1b\r", lines=True) == "a\n\tb\\x1b\\r"


def test_a_short_text_is_not_shortened() -> None:
    assert shortened("exactly ten", 11) == "exactly ten"


def test_a_long_text_ends_with_an_ellipsis_at_the_limit() -> None:
    assert shortened("exactly twelve", 12) == "exactly twe…"


def test_a_very_long_text_is_shortened_too() -> None:
    assert shortened("x" * 1_000_000, 5) == "xxxx…"
