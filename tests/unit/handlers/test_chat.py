"""chat_agent: what it is told, and what it makes of the tools."""

from __future__ import annotations

from typing import Any

import pytest
from handling import Desk, calls

from segue import SessionContext, chat_agent
from segue.errors import StepLimit
from segue.models.scripted import Scripted


def told_first(model: Scripted) -> tuple[str, Any]:
    message = model.requests[0].messages[0]
    return message["role"], message["content"]


def test_instructions_are_text_or_a_function_of_the_context(desk: Desk) -> None:
    def instructions(ctx: SessionContext) -> str:
        return f"You are in {ctx.session_id}, asked: {ctx.input}."

    for given, said in (("You help.", "You help."), (instructions, "You are in s, asked: hi.")):
        model = Scripted(["hello"])
        desk.run(chat_agent(model, instructions=given), "hi")
        assert told_first(model) == ("system", said)
    assert [role for role, _ in desk.told()] == ["user", "assistant"] * 2, "they are not in the conversation"


def test_a_tool_that_fails_is_told_and_the_others_go_on(desk: Desk) -> None:
    def broken() -> str:
        raise RuntimeError("closed")

    def fine() -> int:
        return 7

    model = Scripted([calls(("broken", {}), ("fine", {})), "done"])
    assert desk.run(chat_agent(model, tools=[broken, fine]), "x").value == "done"
    assert [message["content"] for message in model.requests[1].messages[-2:]] == [
        "RuntimeError: closed",
        "7",
    ]


def test_content_parts_are_given_to_the_model_as_they_are(desk: Desk) -> None:
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    model = Scripted(["a picture"])
    desk.run(chat_agent(model), parts)
    assert model.requests[0].messages == [{"role": "user", "content": parts}]


def test_a_model_that_never_stops_calling_ends_at_the_step_limit(desk: Desk) -> None:
    def again() -> str:
        return "again"

    model = Scripted([calls(("again", {}))] * 3)
    with pytest.raises(StepLimit, match="raise `steps`"):
        desk.run(chat_agent(model, tools=[again], steps=3), "x")
    assert (len(model.requests), desk.statuses()) == (3, ["failed"])


def test_a_model_that_says_nothing_is_not_asked_again(desk: Desk) -> None:
    model = Scripted([""] * 3)
    assert desk.run(chat_agent(model), "x").status == "completed"
    assert len(model.requests) == 1
