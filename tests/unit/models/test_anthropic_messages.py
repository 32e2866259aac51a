"""Chat messages as the Messages API wants them."""

from __future__ import annotations

from typing import Any

import pytest

from segue.models.anthropic_messages import split_system, tool_of


def said(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def test_all_system_texts_go_before_the_conversation() -> None:
    messages = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
    ]
    assert split_system(messages) == ("a\n\nb", [said("user", "hi")])


def test_messages_of_one_role_in_a_row_become_one() -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
    ]
    assert split_system(messages) == ("", [said("user", "a", "b"), said("assistant", "c")])


def test_blank_texts_are_left_out() -> None:
    assert split_system([{"role": "user", "content": "a"}, {"role": "assistant", "content": "  "}]) == (
        "",
        [said("user", "a")],
    )


def test_a_conversation_that_begins_with_the_assistant_gets_a_user_before_it() -> None:
    assert split_system([{"role": "assistant", "content": "a"}]) == (
        "",
        [said("user", "(continued)"), said("assistant", "a")],
    )


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/png;base64,AAAA", {"type": "base64", "media_type": "image/png", "data": "AAAA"}),
        ("https://example.org/a.png", {"type": "url", "url": "https://example.org/a.png"}),
    ],
)
def test_an_image_keeps_its_data_or_its_address(url: str, source: dict[str, str]) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    image = {"type": "image", "source": source}
    assert split_system([{"role": "user", "content": content}]) == (
        "",
        [{"role": "user", "content": [image]}],
    )


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert tool_of({"type": "function", "function": {"name": "f"}}) == {
        "name": "f",
        "description": "",
        "input_schema": {"type": "object", "properties": {}},
    }
