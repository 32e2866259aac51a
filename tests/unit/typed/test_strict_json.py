from __future__ import annotations

from typing import Any

import pytest

from segue.typed.strict_json import NotJson, read_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null, true, "é"]}', {"a": [1, 2.5, None, True, "é"]}),
        (" \n[]\t", []),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\ud83d\ude00"', "😀"),
        (r'"\\ud83d"', r"\ud83d"),
        ("9" * 4300, int("9" * 4300)),
        ("-0", 0),
        ("[" * 200 + "]" * 200, None),
    ],
)
def test_json_is_read_exactly(text: str, value: Any) -> None:
    found = read_json(text)
    assert found == value or value is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"command": "ls', 'Unterminated string starting at line 1, column 13: \'{"command": "ls\''),
        ('{"a": 1}{"b": 2}', 'something follows its end at line 1, column 9: \'{"a": 1}{"b": 2}\''),
        ('{"a": 1} and so on', "something follows its end at line 1, column 10: '{\"a\": 1} and so on'"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes at line 1, column 2: \"{'a': 1}\""),
        ('```json\n{"a": 1}\n```', "it is in a Markdown fence: give the JSON alone"),
        ("", "Expecting value at its end (character 0): ...''"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "the number 1e999 is too large"),
        ('{"a": 1, "b": 2, "a": 1}', 'the key "a" stands twice in one object'),
        ("9" * 4301, "an integer has 4,301 digits, over the limit of 4,300"),
        ("[" * 201 + "]" * 201, "it is nested more than 200 levels deep"),
        ("[" * 100_000, "it is nested more than 200 levels deep"),
        ('{"a":' * 100_000, "it is nested more than 200 levels deep"),
        (r'"\ud83d"', "it holds half of a character (a lone surrogate)"),
        ('{"\udc00": 1}', "it holds half of a character (a lone surrogate)"),
    ],
)
def test_what_is_not_json_is_refused_with_the_place_and_an_excerpt(text: str, problem: str) -> None:
    with pytest.raises(NotJson) as caught:
        read_json(text)
    assert str(caught.value) == problem


def test_a_comma_too_many_is_refused() -> None:
    with pytest.raises(NotJson, match=r"at line 1, column [89]: '\{\"a\": 1,\}'"):
        read_json('{"a": 1,}')
