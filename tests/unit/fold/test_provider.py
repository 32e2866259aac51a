from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from segue.errors import PendingCalls
from segue.fold import fold, provider_messages, wire_names
from segue.testing.validity import TOOL_NAME, provider_problems

USER = {"role": "user", "content": "q"}


def called(arguments: str = "{}", name: str = "f", call_id: str = "c") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def exchange(*calls: dict[str, Any], content: Any = "") -> list[dict[str, Any]]:
    """An assistant message with these calls, answered in the opposite order."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"of {call['id']!a}"} for call in calls
    ]
    return [{"role": "assistant", "content": content, "tool_calls": list(calls)}, *results[::-1]]


def sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The provider view, checked for what holds of every one."""
    before = copy.deepcopy(messages)
    view = provider_messages(messages)
    assert provider_problems(view) == []
    assert provider_messages(view) == view
    assert messages == before
    return view


def test_results_stand_in_call_order() -> None:
    assert sent([USER, *exchange(called(call_id="a"), called(call_id="b"))]) == [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [called(call_id="a"), called(call_id="b")]},
        {"role": "tool", "tool_call_id": "a", "content": "of 'a'"},
        {"role": "tool", "tool_call_id": "b", "content": "of 'b'"},
    ]


def test_an_open_call_cannot_be_sent() -> None:
    messages = exchange(called(call_id="a"), called(call_id="b"))[:2]
    with pytest.raises(PendingCalls) as caught:
        provider_messages(messages)
    assert caught.value.call_ids == ["a"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a":1}', '{"a":1}'),
        (' {"a" : 1} ', ' {"a" : 1} '),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        ("[1]", '{"_raw": "[1]"}'),
        ("5", '{"_raw": "5"}'),
        ('{"command": "ls', '{"_raw": "{\\"command\\": \\"ls"}'),
        ("{'a': 1}", '{"_raw": "{\'a\': 1}"}'),
        ('{"a": 1,}', '{"_raw": "{\\"a\\": 1,}"}'),
        ('{"a": 1}{"b": 2}', '{"_raw": "{\\"a\\": 1}{\\"b\\": 2}"}'),
        ("```json\n{}\n```", '{"_raw": "```json\\n{}\\n```"}'),
        ('{"a": NaN, "b": [-Infinity]}', '{"a": "NaN", "b": ["-Infinity"]}'),
        ('{"a": "\ud800"}', '{"a": "\ufffd"}'),
        ('{"a": "\\ud800"}', '{"a": "\ufffd"}'),
        ('{"a": "\\ud83d\\ude00"}', '{"a": "😀"}'),
        ('{"n": 1' + "0" * 5000 + "}", '{"n": "1' + "0" * 5000 + '"}'),
        ("[" * 100_000, '{"_raw": "' + "[" * 100_000 + '"}'),
        ('{"a":' * 300 + "1" + "}" * 300, None),
    ],
)
def test_arguments_are_always_the_text_of_an_object(arguments: str, expected: str | None) -> None:
    text = sent(exchange(called(arguments)))[0]["tool_calls"][0]["function"]["arguments"]
    assert text == (json.dumps({"_raw": arguments}) if expected is None else expected)


HOSTILE_NAMES = [
    "Docker scan",
    "a.b",
    "wetter_für",
    "天気",
    "x" * 100,
    "a b",
    "a_b",
    "<lambda>",
    "f\n",
    "\ud800",
    " ",
]


def test_tool_names_are_acceptable_different_and_the_same_in_every_set() -> None:
    names = wire_names(HOSTILE_NAMES)
    assert len(set(names.values())) == len(HOSTILE_NAMES)
    assert [name for name in names.values() if TOOL_NAME.fullmatch(name) is None] == []
    assert {name: wire_names([name])[name] for name in HOSTILE_NAMES} == names
    assert names["a_b"] == "a_b"


def test_a_tool_name_is_the_same_in_every_process_and_version() -> None:
    assert wire_names(["a b", "天気"]) == {"a b": "a_b_c8687a08aa5d", "天気": "tool_bc79d84d3df7"}


def test_a_name_that_imitates_another_ones_form_gets_its_own() -> None:
    imitation = wire_names(["a b"])["a b"]
    names = wire_names([imitation, "a b"])
    assert names[imitation] == imitation
    assert names["a b"] != imitation


def test_calls_have_the_names_of_the_set() -> None:
    calls = [called(name=name, call_id=f"c{at}") for at, name in enumerate(HOSTILE_NAMES)]
    message = sent(exchange(*calls))[0]
    expected = wire_names(HOSTILE_NAMES)
    assert [call["function"]["name"] for call in message["tool_calls"]] == [
        expected[name] for name in HOSTILE_NAMES
    ]


def test_there_is_one_system_message_and_it_is_the_first() -> None:
    messages = [
        USER,
        {"role": "system", "content": "one"},
        {"role": "developer", "content": "two"},
        {"role": "system", "content": ""},
    ]
    assert sent(messages) == [{"role": "system", "content": "one\n\ntwo"}, USER]


def test_system_messages_with_parts_are_joined_as_parts() -> None:
    parts = [{"type": "text", "text": "two"}]
    messages = [{"role": "system", "content": "one"}, {"role": "developer", "content": parts}]
    content = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert sent(messages) == [{"role": "system", "content": content}]


@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_assistant_message_is_left_out(content: Any) -> None:
    assert sent([USER, {"role": "assistant", "content": content, "reasoning_content": "hm"}, USER]) == [
        USER,
        USER,
    ]


def test_private_and_unknown_keys_stay_behind() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "_native_chunks": [1],
        "_framework_state": {},
        "reasoning_content": "r",
    }
    assert sent([message]) == [{"role": "assistant", "content": "a"}]
    assert provider_messages([message], "deepseek") == [
        {"role": "assistant", "content": "a", "reasoning_content": "r"}
    ]


def test_a_speakers_name_stays_when_providers_take_it() -> None:
    assert sent([{**USER, "name": "bob"}, {**USER, "name": "Bob B."}]) == [{**USER, "name": "bob"}, USER]


def test_values_that_are_not_strict_json_become_text() -> None:
    part = {
        "type": "x",
        "nan": float("nan"),
        "big": 10**5000,
        "k\ud800": "\udce9",
        "fine": [1, 2.5, None, True],
    }
    expected = {
        "type": "x",
        "nan": "NaN",
        "big": "1" + "0" * 5000,
        "k\ufffd": "\ufffd",
        "fine": [1, 2.5, None, True],
    }
    assert sent([{"role": "user", "content": [part, "words", 5]}]) == [
        {
            "role": "user",
            "content": [expected, {"type": "text", "text": "words"}, {"type": "text", "text": "5"}],
        }
    ]


def test_call_ids_that_become_equal_stay_apart() -> None:
    view = sent(exchange(called(call_id="\ud800"), called(call_id="\ud801"), called(call_id="\ufffd")))
    assert [call["id"] for call in view[0]["tool_calls"]] == ["\ufffd", "\ufffd_2", "\ufffd_3"]
    assert [message["content"] for message in view[1:]] == ["of '\\ud800'", "of '\\ud801'", "of '\\ufffd'"]


def test_the_view_of_a_fold_with_awkward_values_is_acceptable(journal: Any) -> None:
    awkward = {"n": 10**5000, "x": float("nan"), "s": "\ud800", "k\udfff": [float("inf")]}
    rows = journal(
        ("INVOCATION_STARTED", {"reason": {"kind": "user_message", "input": "a\ud800"}}),
        ("TOOL_CALL", {"tool_call_id": "c", "name": "天気", "arguments": awkward}),
        ("TOOL_RESULT", {"tool_call_id": "c", "result": awkward}),
    )
    view = sent(fold(rows).messages())
    assert view[0] == {"role": "user", "content": "a\ufffd"}
    assert json.loads(view[1]["tool_calls"][0]["function"]["arguments"]) == {
        "n": "1" + "0" * 5000,
        "x": "NaN",
        "s": "\ufffd",
        "k\ufffd": ["Infinity"],
    }
