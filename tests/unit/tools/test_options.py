from __future__ import annotations

import functools
from typing import Any

import pytest

from segue.errors import DefinitionError
from segue.tools.tool import as_tool, tool


def transfer(amount: int, to: str = "me") -> str:
    return f"{amount} to {to}"


async def decide(arguments: dict[str, Any]) -> bool:
    return True


class Account:
    @tool(needs_approval=True)
    def close(self, reason: str) -> str:
        return reason


def fails(arguments: dict[str, Any]) -> bool:
    raise KeyError("amount")


def test_the_defaults_are_the_careful_ones() -> None:
    made = tool(transfer)
    assert (made.idempotent, made.timeout, made.gated(made.bind('{"amount": 1}'))) == (False, None, False)


def test_options_are_kept() -> None:
    made = tool(name="pay", description="Pay.", needs_approval=True, idempotent=True, timeout=2.5)(transfer)
    assert (made.name, made.description, made.idempotent, made.timeout) == ("pay", "Pay.", True, 2.5)
    assert made.gated({}) is True
    assert made(5) == "5 to me"


@pytest.mark.parametrize(("amount", "expected"), [("99", False), ("100", True)])
def test_a_predicate_sees_the_arguments_as_they_are_bound(amount: str, expected: bool) -> None:
    seen: list[dict[str, Any]] = []

    def large(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return bool(arguments["amount"] >= 100)

    made = tool(transfer, needs_approval=large)
    assert made.gated(made.bind(f'{{"amount": "{amount}"}}')) is expected
    assert seen == [{"amount": int(amount), "to": "me"}]


def test_a_predicate_that_raises_means_that_an_approval_is_needed() -> None:
    assert tool(transfer, needs_approval=fails).gated({"amount": 1}) is True


def test_a_predicate_cannot_change_what_will_run() -> None:
    arguments = {"amount": 5, "to": "me"}
    tool(transfer, needs_approval=lambda given: given.clear()).gated(arguments)
    assert arguments == {"amount": 5, "to": "me"}


def test_a_partial_of_a_gated_tool_is_gated_and_its_predicate_sees_what_was_filled_in() -> None:
    gated = tool(transfer, needs_approval=lambda arguments: arguments["to"] == "them")
    filled = as_tool(functools.partial(gated, to="them"))
    assert filled.gated(filled.bind('{"amount": 1}')) is True
    assert as_tool(functools.partial(functools.partial(gated, to="me"), 1)).gated({}) is False


def test_the_method_of_an_instance_keeps_the_options_of_its_class() -> None:
    for made in (Account().close, as_tool(functools.partial(Account().close, "old"))):
        assert (made.name, made.gated({})) == ("close", True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"approval": True},
            "tool takes name, description, needs_approval, idempotent, timeout: .*'approval'",
        ),
        ({"name": 3}, "name=3 is not text"),
        ({"description": b""}, "description=b'' is not text"),
        ({"needs_approval": "yes"}, "needs_approval='yes' is neither a bool nor a function of the arguments"),
        ({"needs_approval": None}, "needs_approval=None is neither"),
        ({"needs_approval": decide}, "needs_approval is a coroutine function"),
        ({"idempotent": 1}, "idempotent=1 is not a bool"),
        ({"timeout": 0}, "timeout=0 is not a number of seconds over 0"),
        ({"timeout": True}, "timeout=True is not"),
        ({"timeout": float("inf")}, "timeout=inf is not"),
        ({"timeout": float("nan")}, "timeout=nan is not"),
        ({"timeout": "5"}, "timeout='5' is not"),
    ],
)
def test_an_option_that_cannot_work_is_refused_when_it_is_declared(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DefinitionError, match=problem):
        tool(**options)
