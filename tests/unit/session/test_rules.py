"""Rules that grant ahead, and the policy that asks for more: what each admits, and what it never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.agents.function import agentic_function
from segue.errors import AlreadyDecided, InvalidPolicy, NotWaiting, Suspended, UsageError
from segue.events.facts import ApprovalRuleSet
from segue.handlers.app import AgentApp
from segue.handlers.chat import chat_agent
from segue.handlers.drive import drive
from segue.handlers.resume import resume
from segue.journal import Journal
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.memory import MemoryStore
from segue.tools.policy import load_policy
from segue.tools.tool import Tool, tool


@pytest.fixture(params=["git", "memory"])
def either(request: pytest.FixtureRequest) -> SessionDB:
    """Sessions on a git store, and on the memory store."""
    if request.param == "git":
        git: SessionDB = request.getfixturevalue("db")
        return git
    return SessionDB(MemoryStore())


class Bank:
    """What was paid, and a program whose model may pay."""

    def __init__(self, db: SessionDB) -> None:
        self.db, self.paid = db, list[str]()
        self.pay = self.declared(needs_approval=True)

    def declared(self, name: str = "pay", **options: Any) -> Tool[..., Any]:
        @tool(name=name, **options)
        def pay(to: str, eur: int = 5) -> str:
            """Pay somebody."""
            self.paid.append(f"{to} {eur}")
            return "paid"

        return pay

    @property
    def program(self) -> Any:
        @agentic_function
        def program(order: str, runtime: Any = None) -> str:
            """You pay."""
            answer: str = runtime.exec(order, tools=[self.pay])
            return answer

        return program

    def begin(self, *calls: dict[str, Any], session: str = "s", name: str = "pay") -> bool:
        """A new turn in which the model calls; whether it waits."""
        asked = {"tool_calls": [{"name": name, "arguments": arguments} for arguments in calls]}
        try:
            with session_context(session, runtime=Runtime(Scripted([asked, "done"])), db=self.db):
                self.program("pay")
        except Suspended:
            return True
        return False

    def go_on(self, *replies: Any, session: str = "s") -> Any:
        model = Scripted([*replies, "done"])
        return resume(session, function=self.program, runtime=Runtime(model), db=self.db).value

    @property
    def journal(self) -> Journal:
        return self.db.journal("s")

    def waits(self, session: str = "s") -> list[str]:
        return [wait.id for wait in decisions.open_waits(self.db.journal(session))]

    def rows(self, *types: str) -> list[dict[str, Any]]:
        return [row.payload for row in self.db.read("s") if row.type in types]


@pytest.fixture
def bank(either: SessionDB) -> Bank:
    return Bank(either)


def always(bank: Bank, how: Any = "any") -> str:
    """Granted once, with a rule; gives the rule's id."""
    assert bank.begin({"to": "Ada"})
    decisions.approve(bank.journal, bank.waits()[0], always=how, approver="me")
    bank.go_on()
    [rule] = decisions.rules(bank.journal)
    bank.paid.clear()
    return rule.id


# --- rules ---


def test_a_rule_for_any_arguments_grants_later_calls_each_with_a_row_that_names_it(bank: Bank) -> None:
    rule = always(bank)
    assert not bank.begin({"to": "Bo", "eur": 900}, {"to": "Cy"})
    assert sorted(bank.paid) == ["Bo 900", "Cy 5"]
    granted = bank.rows("TOOL_APPROVAL_GRANTED")
    assert [row.get("rule_id", "") for row in granted] == ["", rule, rule]
    assert [len(row["digest"]) for row in granted] == [64, 64, 64]
    assert len({row["tool_call_id"] for row in granted}) == 3


def test_what_a_rule_grants_is_in_the_record_before_it_starts(bank: Bank) -> None:
    always(bank)
    bank.begin({"to": "Bo"})
    types = [row.type for row in bank.db.read("s")]
    grant = len(types) - 1 - types[::-1].index("TOOL_APPROVAL_GRANTED")
    assert types[grant : grant + 3] == ["TOOL_APPROVAL_GRANTED", "TOOL_STARTED", "TOOL_RESULT"]


def test_a_rule_for_these_arguments_admits_them_only_with_their_defaults_and_types(bank: Bank) -> None:
    always(bank, "these")
    assert not bank.begin({"eur": 5, "to": "Ada"})  # the default, said
    assert bank.paid == ["Ada 5"]
    assert bank.begin({"to": "Ada", "eur": 6})
    assert bank.paid == ["Ada 5"]


def test_a_rule_grants_what_waits_already_and_says_so(bank: Bank) -> None:
    assert bank.begin({"to": "Ada"}, {"to": "Bo"}, {"to": "Ada"})
    first, second, third = bank.waits()
    assert decisions.approve(bank.journal, first, always="these") == [third]
    assert bank.waits() == [second]
    decisions.deny(bank.journal, second)
    bank.go_on()
    assert bank.paid == ["Ada 5", "Ada 5"]


def test_a_rule_that_is_withdrawn_admits_nothing_more(bank: Bank) -> None:
    rule = always(bank)
    decisions.withdraw(bank.journal, rule, by="me")
    assert decisions.rules(bank.journal) == []
    assert bank.begin({"to": "Ada"})
    assert bank.paid == []
    with pytest.raises(NotWaiting, match="has no rule"):
        decisions.withdraw(bank.journal, rule)


def test_a_rule_withdrawn_between_the_look_and_the_row_grants_nothing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = always(bank)
    from segue.session.turn import Turn

    write = Turn.append_onto

    async def late(self: Turn, last_seq: int, *events: Any) -> None:
        monkeypatch.setattr(Turn, "append_onto", write)
        decisions.withdraw(bank.journal, rule)
        await write(self, last_seq, *events)

    monkeypatch.setattr(Turn, "append_onto", late)
    assert bank.begin({"to": "Bo"})
    assert (bank.paid, len(bank.rows("TOOL_APPROVAL_GRANTED"))) == ([], 1)


def test_a_rule_is_for_its_session(bank: Bank) -> None:
    always(bank)
    assert bank.begin({"to": "Ada"}, session="other")
    assert bank.paid == []


def test_a_rule_row_that_was_copied_into_another_session_is_no_rule(bank: Bank) -> None:
    always(bank)
    [row] = bank.rows("APPROVAL_RULE_SET")
    bank.begin({"to": "Ada"}, session="other")
    bank.db.journal("other").append(ApprovalRuleSet(**row))
    assert decisions.rules(bank.db.journal("other")) == []


def test_a_rule_is_for_its_tool(bank: Bank) -> None:
    always(bank)
    bank.pay = bank.declared("transfer", needs_approval=True)
    assert bank.begin({"to": "Ada"}, name="transfer")
    assert bank.paid == []


def over_ten(arguments: dict[str, Any]) -> bool:
    return bool(arguments["eur"] > 10)


def over_one(arguments: dict[str, Any]) -> bool:
    return bool(arguments["eur"] > 1)


def test_a_rule_is_void_once_the_tool_is_declared_otherwise(bank: Bank) -> None:
    """A new mark, a new meaning: what was allowed always is no longer the same thing."""
    always(bank)
    bank.pay = bank.declared(needs_approval=over_ten)
    assert bank.begin({"to": "Ada", "eur": 11})
    decisions.approve(bank.journal, bank.waits()[0], always="any")
    bank.go_on()
    assert not bank.begin({"to": "Ada", "eur": 12})
    bank.pay = bank.declared(needs_approval=over_one)
    assert bank.begin({"to": "Ada", "eur": 12})
    assert bank.paid == ["Ada 11", "Ada 12"]


def test_a_predicate_of_the_same_name_with_other_code_is_another_one(bank: Bank) -> None:
    marks = [lambda arguments: arguments["eur"] > 10, lambda arguments: arguments["eur"] > 1]
    first, second = (bank.declared(needs_approval=mark).declaration() for mark in marks)
    assert (first == second, first == bank.declared(needs_approval=marks[0]).declaration()) == (False, True)


def test_a_rule_for_changed_arguments_or_with_an_end_is_refused(bank: Bank) -> None:
    bank.begin({"to": "Ada"})
    for more in ({"arguments": {"to": "Bo"}}, {"expires_at": "2999-01-01T00:00:00Z"}):
        with pytest.raises(UsageError, match="as they are made"):
            decisions.approve(bank.journal, bank.waits()[0], always="any", **more)
    assert (len(bank.waits()), bank.rows("APPROVAL_RULE_SET")) == (1, [])


def test_a_denied_call_sets_no_rule_and_is_admitted_by_none(bank: Bank) -> None:
    bank.begin({"to": "Ada"}, {"to": "Bo"})
    first, second = bank.waits()
    decisions.deny(bank.journal, second)
    with pytest.raises(AlreadyDecided):
        decisions.approve(bank.journal, second, always="any")
    decisions.approve(bank.journal, first, always="any")
    bank.go_on()
    assert bank.paid == ["Ada 5"]


def test_a_rule_that_says_more_than_is_understood_admits_nothing(bank: Bank) -> None:
    always(bank)
    [row] = bank.rows("APPROVAL_RULE_SET")
    bank.journal.append(ApprovalRuleSet(**{**row, "predicate": {"arguments_below": {"eur": 10}}}))
    assert decisions.rules(bank.journal) == []


def test_what_code_asks_for_without_a_tool_gets_no_rule(either: SessionDB) -> None:
    async def asks(context: Any) -> Any:
        context.request_approval("delete everything", {"really": True})
        yield

    with pytest.raises(Suspended):
        drive(asks, "s", input="go", db=either).run()
    [wait] = decisions.open_waits(either.journal("s"))
    with pytest.raises(UsageError, match="not as a tool"):
        decisions.approve(either.journal("s"), wait.id, always="any")


# --- the policy ---


def test_a_policy_gates_a_tool_that_the_code_does_not(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.pay = bank.declared()
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "pay, also")
    assert bank.begin({"to": "Ada"})
    decisions.approve(bank.journal, bank.waits()[0])
    bank.go_on()
    assert bank.paid == ["Ada 5"]


def test_a_policy_never_takes_a_gate_away(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "another")
    assert bank.begin({"to": "Ada"})


def test_a_policy_asks_also_where_a_predicate_would_not(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.pay = bank.declared(needs_approval=over_ten)
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "pay")
    assert bank.begin({"to": "Ada", "eur": 1})


def test_file_and_variable_gate_together(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "config.toml").write_text('approval_tools = ["pay"]')
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "send")
    assert sorted(load_policy().tools) == ["pay", "send"]


@pytest.mark.parametrize("text", ["pay,", "pay send", "p@y", " ", '["pay"]', "a" * 65])
def test_a_malformed_variable_stops_the_start(bank: Bank, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", text)
    with pytest.raises(InvalidPolicy, match="SEGUE_APPROVAL_POLICY names"):
        bank.begin({"to": "Ada"})


@pytest.mark.parametrize("value", ['"pay"', "true", '[["pay"]]', "[1]", '[""]', "{pay = true}"])
def test_a_malformed_file_stops_the_start(bank: Bank, home: Path, value: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f"approval_tools = {value}")
    with pytest.raises(InvalidPolicy, match="approval_tools in"):
        bank.begin({"to": "Ada"})
    assert bank.rows("CALL_STARTED", "MESSAGE_START") == [] or bank.paid == []


def test_a_name_that_is_no_tool_stops_a_handler_before_its_turn(
    either: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    def fetch_letters() -> str:
        return "none"

    app = AgentApp(tools=[fetch_letters])
    app.agent_route("/")(chat_agent(Scripted(["hello"])))
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "fetch_leters")
    with pytest.raises(InvalidPolicy, match=r"fetch_leters, which is no tool.*did you mean fetch_letters"):
        drive(app, "s", input="go", db=either).run()
    assert [row.type for row in either.read("s")] == ["SESSION_CREATED"]
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "fetch_letters")
    assert drive(app, "s", input="go", db=either).run().value == "hello"


def test_a_policy_and_rules_hold_for_a_chat_agent(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.pay = bank.declared()
    monkeypatch.setenv("SEGUE_APPROVAL_POLICY", "pay")
    call = {"tool_calls": [{"name": "pay", "arguments": {"to": "Ada"}}]}
    agent = chat_agent(Scripted([call, "paid", call, "paid again"]), tools=[bank.pay])
    with pytest.raises(Suspended):
        drive(agent, "s", input="pay", db=bank.db).run()
    decisions.approve(bank.journal, bank.waits()[0], always="these")
    assert drive(agent, "s", db=bank.db).run().value == "paid"
    assert drive(agent, "s", input="again", db=bank.db).run().value == "paid again"
    assert bank.paid == ["Ada 5", "Ada 5"]
