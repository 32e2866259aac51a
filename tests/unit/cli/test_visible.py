"""Text of models and tools is made visible, never acted on."""

from __future__ import annotations

import pytest

from segue.cli import waits
from segue.cli.visible import exact, shortened, visible
from segue.fold.waits import Wait


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
        ("pass\u200dword", "pass\\u200dword"),
        ("tag\U000e0041\U000e0042", "tag\\U000e0041\\U000e0042"),
        ("blank\u3164\u2800", "blank\\u3164\\u2800"),
        ("soft\u00adhyphen", "soft\\xadhyphen"),
        ("1\ufe0f2", "1\\ufe0f2"),
        ("hidden\U000e0100\ufe01", "hidden\\U000e0100\\ufe01"),
        ("❤\ufe0f 1\ufe0f\u20e3", "❤\ufe0f 1\ufe0f\u20e3"),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0301" * 6, "z" + "\u0301" * 4 + "\\u0301\\u0301"),
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("paypal", "paypal"),
        ("p\u0430ypal", "p\\u0430ypal"),
        ("привет мир", "привет мир"),
        ("Größe 日本", "Größe 日本"),
        ("\uff50ay \U0001d429ay", "\\uff50ay \\U0001d429ay"),
        ("rm\u00a0-rf\u2003/", "rm\\xa0-rf\\u2003/"),
        ("two\nlines", "two\\nlines"),
    ],
)
def test_in_what_is_decided_on_also_what_looks_like_something_else_is_shown(text: str, shown: str) -> None:
    assert exact(text) == shown


def approval(**arguments: object) -> Wait:
    return Wait(kind="approval", id="c", name="pay", arguments=arguments)


def test_a_call_is_shown_as_json_in_which_an_escape_cannot_be_faked() -> None:
    shown = waits.called(approval(to="a\u202eb", fake="a\\u202eb", line="x\n  segue approve s"))
    assert shown == 'pay({"to":"a\\u202eb","fake":"a\\\\u202eb","line":"x\\n  segue approve s"})'


def test_a_name_cannot_fake_a_line_either() -> None:
    wait = Wait(kind="approval", id="c", name="ok\n  segue approve s c\x1b[2J", arguments={})
    assert waits.called(wait) == "ok\\n  segue approve s c\\x1b[2J({})"


def test_of_a_long_call_the_end_is_shown_and_how_much_is_not_and_where_to_see_it() -> None:
    wait = approval(text="x" * 5_000, then="rm -rf /")
    shown = waits.called(wait, see="segue approvals s --full")
    assert '"then":"rm -rf /"})' in shown
    assert "[... 3,029 characters are not shown: segue approvals s --full ...]" in shown
    assert len(shown) < 2_200
    assert "x" * 5_000 in waits.whole(wait)


def test_further_lines_of_a_question_cannot_be_taken_for_ours() -> None:
    wait = Wait(kind="question", id="q", name="Go on?\nsegue approve s c\r\u2028$ ", options=["yes\nno"])
    assert waits.asked(wait) == "Go on?\n  | segue approve s c\n  | \n  | $ "
    assert waits.whole(wait).splitlines()[-1] == "  1. yes\\nno"
