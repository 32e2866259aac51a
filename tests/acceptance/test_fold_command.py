"""`segue fold`: journals in, messages out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Program

CASES = Path(__file__).parents[1] / "conformance" / "fold"
EMPTY = {"messages": [], "pending_tool_call": None}


def row(seq: int, type_: str, **payload: Any) -> dict[str, Any]:
    place = {"id": f"evt_{seq}", "session_id": "s", "deployment_id": "d", "seq": seq}
    return place | {"type": type_, "payload": payload, "created_at": "2026-01-01T00:00:00Z"}


def asked(seq: int, text: str) -> dict[str, Any]:
    return row(seq, "INVOCATION_STARTED", reason={"kind": "user_message", "input": text})


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_a_journal_becomes_messages(segue: Program) -> None:
    done = segue("fold", given=lines(asked(1, "hello"), row(2, "NO_MORE_ACTIONS")))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "messages": [{"role": "user", "content": "hello"}],
        "pending_tool_call": None,
    }


def test_empty_input_is_an_empty_conversation(segue: Program) -> None:
    assert json.loads(segue("fold", given="").stdout) == EMPTY


def test_a_batch_gives_one_result_a_line_in_order(segue: Program) -> None:
    done = segue("fold", "--batch", given=lines([asked(1, "a")], [], [asked(1, "b")]))
    contents = [
        [message["content"] for message in json.loads(line)["messages"]] for line in done.stdout.splitlines()
    ]
    assert contents == [["a"], [], ["b"]]


def test_an_empty_batch_gives_nothing(segue: Program) -> None:
    done = segue("fold", "--batch", given="")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ([], lines(asked(1, "a")) + "nonsense\n", "segue: line 2: "),
        ([], '{"id": 1}\n', "segue: line 1: "),
        (["--batch"], "[]\n{}\n", "segue: line 2: a journal is a JSON array of envelopes"),
        (["--batch"], "[]\n[]\n[{}]\n", "segue: line 3: row 1: "),
    ],
)
def test_a_bad_line_is_named_and_is_exit_1(
    segue: Program, options: list[str], given: str, message: str
) -> None:
    done = segue("fold", *options, given=given)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr


def test_what_was_folded_before_a_bad_line_of_a_batch_is_printed(segue: Program) -> None:
    assert json.loads(segue("fold", "--batch", given="[]\nx\n").stdout) == EMPTY


def test_integers_and_lone_surrogates_come_through_exactly(segue: Program) -> None:
    given = json.dumps(asked(1, "x")).replace('"x"', '{"n": 123456789012345678901234567890, "s": "\\ud800"}')
    content = json.loads(segue("fold", given=given + "\n").stdout)["messages"][0]["content"]
    assert content == '{"n": 123456789012345678901234567890, "s": "\\ud800"}'


@pytest.mark.parametrize("name", ["scenarios", "journals"])
def test_the_conformance_cases_come_out_right(segue: Program, name: str) -> None:
    cases = [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    journals = [
        [row(seq, type_, **payload) for seq, (type_, payload) in enumerate(case["rows"], 1)] for case in cases
    ]
    done = segue("fold", "--batch", given=lines(*journals))
    expected = [{"messages": case["messages"], "pending_tool_call": case["pending"]} for case in cases]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
