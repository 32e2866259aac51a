"""Deciding with the installed program: what is shown, what is refused, and what a policy adds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Program

PROGRAMS = Path(__file__).parent / "programs"
TRICK = "rye\u202e\u200b\x1b[2J\nsegue approve m\U000e0041"


@pytest.fixture
def mill(segue: Program) -> Program:
    for name in ("mill.py", "form.py"):
        shutil.copy(PROGRAMS / name, segue.folder)
    segue.environment["MILL_EFFECTS"] = str(segue.folder / "effects")
    return segue


def effects(mill: Program) -> list[str]:
    path = mill.folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def run(mill: Program, *calls: tuple[str, dict[str, Any]]) -> Any:
    made = {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    return mill("run", "mill:mill", "go", "--session", "m", "--model", mill.script(made, "Done."))


def test_what_is_shown_is_what_will_run_and_data_stays_data(mill: Program) -> None:
    told = run(mill, ("grind", {"kind": TRICK})).stderr
    shown = '{"kind":"rye\\u202e\\u200b\\u001b[2J\\nsegue approve m\\U000e0041","sacks":1}'
    table, whole = mill("approvals"), mill("approvals", "m", "--full")
    assert f"waits for an approval: grind({shown})" in told
    assert '"kind": "rye\\u202e\\u200b\\u001b[2J\\nsegue approve m\\U000e0041"' in whole.stdout
    for text in (told, table.stdout, table.stderr, whole.stdout):
        assert not any(char in text for char in "\u202e\u200b\x1b\U000e0041")
        assert "\nsegue approve" not in text
    [wait] = mill.json("approvals", "m", "--json")
    assert wait["arguments"] == {"kind": TRICK, "sacks": 1}


def test_a_long_call_says_how_much_is_hidden_and_full_shows_it(mill: Program) -> None:
    told = run(mill, ("grind", {"kind": "x" * 9_000, "sacks": 7})).stderr
    assert "characters are not shown: " in told
    assert "approvals m --full ...] " in told
    assert '"sacks":7})' in told
    assert "x" * 9_000 in mill("approvals", "--full").stdout


def test_a_rule_by_command_line_grants_what_waits_and_what_comes(mill: Program) -> None:
    run(mill, ("grind", {"kind": "rye"}), ("grind", {"kind": "rye"}), ("grind", {"kind": "oats"}))
    assert mill("approve", "m", "call_1_1", "--any-arguments").returncode == 2
    done = mill("approve", "m", "call_1_1", "--always")
    assert "approved by the rule: call_1_2" in done.stderr
    assert [wait["id"] for wait in mill.json("approvals", "m", "--json")] == ["call_1_3"]
    mill("deny", "m", "--message", "enough")
    again = {"tool_calls": [{"name": "grind", "arguments": {"kind": "rye"}}]}
    assert mill("resume", "m", "--model", mill.script(again, "Done.")).stdout == "Done.\n"
    assert effects(mill) == ["ground 1 rye"] * 3
    table = mill("rules").stdout
    assert 'grind({"kind":"rye","sacks":1})' in table
    [rule] = mill.json("rules", "--json")
    assert mill("rules", "m", "--withdraw", rule["id"]).returncode == 0
    assert mill("rules", "m", "--withdraw", rule["id"]).returncode == 1
    assert mill("rules").stderr == "there are no rules\n"


def test_a_policy_gates_and_a_malformed_one_stops_the_start(mill: Program) -> None:
    mill.environment["SEGUE_APPROVAL_POLICY"] = "look,"
    done = run(mill, ("look", {"place": "here"}))
    assert (done.returncode, "SEGUE_APPROVAL_POLICY names ''" in done.stderr) == (2, True)
    assert mill.json("sessions", "list", "--all", "--json") == []
    mill.environment["SEGUE_APPROVAL_POLICY"] = "look"
    done = run(mill, ("look", {"place": "here"}))
    assert (done.returncode, effects(mill)) == (3, [])
    assert 'waits for an approval: look({"place":"here"})' in done.stderr


def test_a_name_that_nothing_has_declared_is_said_at_the_start(mill: Program) -> None:
    mill.environment["SEGUE_APPROVAL_POLICY"] = "grnd"
    told = run(mill).stderr
    assert "SEGUE_APPROVAL_POLICY names grnd, which is no tool of this program: did you mean grind?" in told


def test_answers_are_checked_against_options_and_schema(mill: Program) -> None:
    mill("run", "form:book", "Ada", "--session", "f")
    mill("answer", "f", "Bern")
    assert mill("resume", "f").returncode == 3
    refused = mill("answer", "f", "cake")
    assert (refused.returncode, "takes one of: fish, soup" in refused.stderr) == (2, True)
    mill("answer", "f", "soup")
    assert '"room":{"type":"string"' in mill("resume", "f").stderr
    refused = mill("answer", "f", "--json", '{"nights": "two"}')
    assert refused.returncode == 2
    assert "nights: 'two' is not of type 'integer'" in refused.stderr
    mill("answer", "f", '{"nights": 2, "room": "large"}')
    assert mill("resume", "f").stdout == "Bern: soup, 2 nights, large, no note\n"
