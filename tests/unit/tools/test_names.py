"""Scenario B071: names that providers refuse, and collisions, are found when a tool is declared."""

from __future__ import annotations

import re

import pytest

from segue.errors import DefinitionError
from segue.tools.tool import as_tool, tool, toolset


def ping() -> str:
    return "pong"


@pytest.mark.parametrize(
    "name", ["Docker scan", "a.b", "wetter_für", "天気", "x" * 65, "", "a\n", "<lambda>"]
)
def test_a_name_that_providers_refuse_is_refused_with_the_way_to_mend_it(name: str) -> None:
    with pytest.raises(DefinitionError, match=r"cannot be a tool's name.*tool\(function, name="):
        tool(ping, name=name)


@pytest.mark.parametrize("name", ["ping", "a_b", "a-b", "x" * 64, "7"])
def test_a_name_that_providers_take_stays_as_it_is(name: str) -> None:
    assert tool(ping, name=name).name == name
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match="'<lambda>' cannot be a tool's name"):
        as_tool(lambda: 1)
    assert as_tool(tool(lambda: 1, name="one")).name == "one"


def test_two_tools_of_one_name_are_an_error_that_names_both() -> None:
    def other() -> str:
        return "pong"

    with pytest.raises(DefinitionError) as caught:
        toolset([ping, tool(other, name="ping")])
    assert str(caught.value) == (
        f"two tools have the name 'ping': {__name__}:ping and"
        f" {__name__}:test_two_tools_of_one_name_are_an_error_that_names_both.<locals>.other. Declare one of them with"
        " another: tool(function, name=...)"
    )


def test_a_toolset_has_its_tools_by_name_in_order() -> None:
    pong = tool(ping, name="pong")
    made = toolset([pong, ping])
    assert list(made) == ["pong", "ping"]
    assert made["pong"] is pong


@pytest.mark.parametrize("values", ["ping", 3, None])
def test_what_is_no_list_of_tools_is_refused(values: object) -> None:
    with pytest.raises(DefinitionError, match="tools is a list of functions or tools"):
        toolset(values)  # type: ignore[arg-type]
