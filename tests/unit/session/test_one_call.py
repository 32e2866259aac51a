"""A grant opens exactly one call: whatever else it is tried on, nothing runs, and somebody is asked again."""

from __future__ import annotations

from typing import Any

import pytest

import segue.events
from segue.agents.function import agentic_function
from segue.errors import AlreadyDecided, InvalidArguments, NotWaiting, Suspended, UsageError
from segue.handlers.resume import resume
from segue.journal import Journal
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.memory import MemoryStore
from segue.tools.digest import digest_of
from segue.tools.tool import Tool, tool

ADA = {"to": "Ada", "eur": 5}


@pytest.fixture(params=["git", "memory"])
def either(request: pytest.FixtureRequest) -> SessionDB:
    if request.param == "git":
        git: SessionDB = request.getfixturevalue("db")
        return git
    return SessionDB(MemoryStore())


class Till:
    """A tool that pays, in a program whose model calls it; what was paid, and what the model was told."""

    def __init__(self, db: SessionDB) -> None:
        self.db, self.paid, self.model = db, list[str](), Scripted([])
        self.tool = self.declared()

    def declared(self, name: str = "pay", default: int = 5) -> Tool[..., Any]:
        @tool(name=name, needs_approval=True)
        def pay(to: str, eur: int = default) -> str:
            """Pay somebody."""
            self.paid.append(f"{to} {eur}")
            return "paid"

        return pay

    def program(self) -> Any:
        @agentic_function
        def program(order: str, runtime: Any = None) -> str:
            """You pay."""
            answer: str = runtime.exec(order, tools=[self.tool])
            return answer

        return program

    def call(self, *arguments: dict[str, Any], session: str = "s") -> Journal:
        """The model calls with these arguments, and the turn waits."""
        made = {"tool_calls": [{"name": "pay", "arguments": given} for given in arguments]}
        with (
            pytest.raises(Suspended),
            session_context(session, runtime=Runtime(Scripted([made])), db=self.db),
        ):
            self.program()("pay")
        return self.db.journal(session)

    def go_on(self, *replies: Any, session: str = "s") -> Any:
        self.model = Scripted([*replies, "done"])
        return resume(session, function=self.program(), runtime=Runtime(self.model), db=self.db).value

    def waits_again(self, session: str = "s") -> None:
        """Going on ends at the same approval, and has paid nothing."""
        before = list(self.paid)
        with pytest.raises(Suspended):
            self.go_on(session=session)
        assert self.paid == before
        assert [wait.kind for wait in decisions.open_waits(self.db.journal(session))] == ["approval"]

    def told(self) -> list[str]:
        return [
            message["content"] for message in self.model.requests[0].messages if message["role"] == "tool"
        ]


@pytest.fixture
def till(either: SessionDB) -> Till:
    return Till(either)


def one(journal: Journal) -> str:
    [wait] = decisions.open_waits(journal)
    return wait.id


def count(till: Till, kind: str) -> int:
    return sum(row.type == kind for row in till.db.read("s"))


def test_it_opens_its_call_once(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    assert (till.go_on(), till.paid, till.told()) == ("done", ["Ada 5"], ["paid"])


def test_not_with_other_arguments(till: Till) -> None:
    """Scenario B009: a digest of something else."""
    journal = till.call({"to": "Ada"})
    other = digest_of("pay", {"to": "Ada", "eur": 900})
    journal.append(segue.events.ToolApprovalGranted(tool_call_id=one(journal), digest=other))
    till.waits_again()


@pytest.mark.parametrize(
    "digest", ["", "00", digest_of("transfer", ADA), digest_of("pay", {**ADA, "eur": 5.0})]
)
def test_not_without_its_digest(till: Till, digest: str) -> None:
    journal = till.call({"to": "Ada"})
    journal.append(segue.events.ToolApprovalGranted(tool_call_id=one(journal), digest=digest))
    till.waits_again()


def test_not_another_call_of_the_same_arguments(till: Till) -> None:
    journal = till.call({"to": "Ada"}, {"to": "Ada"})
    first, second = (wait.id for wait in decisions.open_waits(journal))
    decisions.approve(journal, first)
    with pytest.raises(Suspended):
        till.go_on()
    assert till.paid == []
    decisions.deny(journal, second)
    till.go_on()
    assert till.paid == ["Ada 5"]


def test_not_a_later_call_of_the_same_arguments(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    with pytest.raises(Suspended):
        till.go_on({"tool_calls": [{"name": "pay", "arguments": {"to": "Ada"}}]})
    assert (till.paid, len(decisions.open_waits(journal))) == (["Ada 5"], 1)


def test_not_the_call_of_another_session(till: Till) -> None:
    """The same id, name and arguments in both."""
    journal, other = till.call({"to": "Ada"}), till.call({"to": "Ada"}, session="other")
    assert one(journal) == one(other)
    decisions.approve(journal, one(journal))
    with pytest.raises(Suspended):
        till.go_on(session="other")
    assert till.paid == []


def test_not_a_second_time_once_the_call_is_done(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    call = one(journal)
    decisions.approve(journal, call)
    till.go_on()
    rows = journal.last_seq
    for decide in (decisions.approve, decisions.deny):
        with pytest.raises(AlreadyDecided) as told:
            decide(journal, call)
        assert told.value.decision == "granted"
    assert (till.paid, journal.last_seq) == (["Ada 5"], rows)


def die(till: Till) -> Journal:
    """Granted, started, and its process ends before the result: nobody knows the outcome. The rows that a process and
    the one that finds it dead leave."""
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    rows = list(till.db.read("s"))
    turn_id = next(row.payload["turn_id"] for row in rows if row.type == "INVOCATION_STARTED")
    call = next(row.payload for row in rows if row.type == "TOOL_CALL")
    lease = journal.acquire(holder="one that dies")
    journal.append(
        segue.events.InvocationStarted(
            invocation_id="inv_dead", turn_id=turn_id, reason={"kind": "recovery"}, attempt=2
        ),
        segue.events.ToolStarted(tool_call_id=call["tool_call_id"], called_by=call["called_by"]),
        segue.events.SessionError(message="it is dead", code="interrupted", turn_id=turn_id),
        lease=lease,
    )
    journal.release(lease)
    till.paid.append("Ada 5")
    [wait] = decisions.open_waits(journal)
    assert wait.kind == "unknown_outcome"
    return journal


def test_not_a_call_that_was_started_whose_outcome_nobody_knows(till: Till) -> None:
    journal = die(till)
    with pytest.raises(AlreadyDecided):
        decisions.approve(journal, one(journal))
    assert till.paid == ["Ada 5"]


def test_a_retry_is_a_persons_word_and_opens_it_once_more_only(till: Till) -> None:
    journal = die(till)
    call = one(journal)
    decisions.resolve(journal, call, "retry")
    till.go_on()
    assert till.paid == ["Ada 5", "Ada 5"]
    rows = journal.last_seq
    for decide in (
        lambda: decisions.approve(journal, call),
        lambda: decisions.resolve(journal, call, "retry"),
    ):
        with pytest.raises(AlreadyDecided):
            decide()
    assert (till.paid, journal.last_seq) == (["Ada 5", "Ada 5"], rows)


def test_not_after_its_end(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal), expires_at="2026-01-01T00:00:00.000000Z")
    till.waits_again()
    decisions.approve(journal, one(journal), expires_at="2999-01-01T00:00:00.000000Z")
    till.go_on()
    assert till.paid == ["Ada 5"]


def test_not_once_the_tools_defaults_are_others(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    till.tool = till.declared(default=900)
    till.waits_again()
    [wait] = decisions.open_waits(journal)
    assert wait.arguments == {"to": "Ada", "eur": 900}


def test_not_once_the_tool_has_another_name(till: Till) -> None:
    """The call names a tool that is not there: the model is told, and nothing runs."""
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    till.tool = till.declared("transfer")
    till.go_on()
    assert (till.paid, till.told()) == ([], ["there is no tool 'pay'; the tools are: transfer"])


@pytest.mark.parametrize("wrong", ["m2", "nope", "", "s"])
def test_what_is_no_waiting_call_cannot_be_granted(till: Till, wrong: str) -> None:
    """Scenario B009: an id that is none, and that of a message."""
    journal = till.call({"to": "Ada"})
    rows = journal.last_seq
    with pytest.raises(NotWaiting):
        decisions.approve(journal, wrong)
    assert journal.last_seq == rows


def test_decisions_go_to_their_calls_in_whatever_order_they_come(till: Till) -> None:
    """Scenarios B008 and B009."""
    journal = till.call({"to": "Ada", "eur": 1}, {"to": "Bo", "eur": 900})
    first, second = (wait.id for wait in decisions.open_waits(journal))
    decisions.approve(journal, second)
    decisions.deny(journal, first, reason="wrong folder")
    till.go_on()
    assert till.paid == ["Bo 900"]
    assert till.told() == ["The reviewer denied this call; it did not run. wrong folder", "paid"]


# --- changed arguments ---


def test_changed_arguments_run_the_model_is_told_and_both_stay_in_the_record(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal), arguments={"to": "Bo", "eur": 1})
    till.go_on()
    assert till.paid == ["Bo 1"]
    assert till.told() == ['The reviewer changed the arguments to {"to":"Bo","eur":1} before this ran.\npaid']
    [asked] = [row.payload for row in till.db.read("s") if row.type == "TOOL_APPROVAL_REQUIRED"]
    [granted] = [row.payload for row in till.db.read("s") if row.type == "TOOL_APPROVAL_GRANTED"]
    assert (asked["arguments"], granted["arguments"]) == (ADA, {"to": "Bo", "eur": 1})


def test_changed_arguments_that_do_not_fit_are_refused_at_once_where_the_tool_is_known(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    with pytest.raises(InvalidArguments, match="eur"):
        decisions.approve(journal, one(journal), arguments={"to": "Bo", "eur": "much"}, tool=till.tool)
    assert count(till, "TOOL_APPROVAL_GRANTED") == 0
    decisions.approve(journal, one(journal), arguments={"to": "Bo"}, tool=till.tool)
    till.go_on()
    assert till.paid == ["Bo 5"]


def test_changed_arguments_that_do_not_fit_are_asked_again_where_it_is_not(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal), arguments={"to": "Bo", "eur": "much"})
    till.waits_again()


def test_changed_arguments_are_an_object(till: Till) -> None:
    journal = till.call({"to": "Ada"})
    with pytest.raises(UsageError, match="JSON object"):
        decisions.approve(journal, one(journal), arguments=["Bo"])


# --- an open approval and something new ---


def test_a_new_turn_denies_what_waited_and_a_late_grant_opens_nothing(till: Till) -> None:
    """Scenario B011: words are no grant."""
    journal = till.call({"to": "Ada"})
    call = one(journal)
    with session_context("s", runtime=Runtime(Scripted(["as you like"])), db=till.db):
        till.program()("yes do it")
    with pytest.raises(AlreadyDecided) as told:
        decisions.approve(journal, call)
    assert (told.value.decision, till.paid) == ("denied", [])


def test_the_mark_is_looked_at_once(either: SessionDB) -> None:
    """Scenario B016: what was decided stands, whatever the predicate would say now."""
    looked: list[Any] = []

    def mark(arguments: dict[str, Any]) -> bool:
        looked.append(arguments)
        if len(looked) > 1:
            raise RuntimeError("asked twice")
        return True

    till = Till(either)
    pay = till.tool.function
    till.tool = tool(pay, name="pay", needs_approval=mark)
    journal = till.call({"to": "Ada"})
    decisions.approve(journal, one(journal))
    till.go_on()
    assert (till.paid, looked) == (["Ada 5"], [ADA])
