from __future__ import annotations

import asyncio
import functools
import sys
import threading
import time
from typing import Any

import pytest

from segue.agents.function import agentic_function
from segue.errors import DefinitionError, StepLimit, Suspended
from segue.fold.conversation import fold
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session.ambient import current_session
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.session.sent import read_sent
from segue.testing.validity import problems, provider_problems
from segue.tools.tool import tool


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it louder."""
    await asyncio.sleep(0)
    return text.upper()


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


def ask(model: Scripted, tools: list[Any], **options: Any) -> Any:
    """One exec inside an agentic function, in the session `s`."""

    @agentic_function
    def work(what: str, runtime: Any = None) -> Any:
        """Work with the tools."""
        return runtime.exec(what, tools=tools, **options)

    return work.run("please", session_id="s", runtime=Runtime(model)).value


def rows(db: SessionDB, *types: str) -> list[tuple[str, Any]]:
    return [(row.type, row.payload) for row in db.read("s") if row.type in types]


def results(db: SessionDB) -> list[Any]:
    return [payload["result"] for _, payload in rows(db, "TOOL_RESULT")]


def test_the_model_gets_the_result_and_answers(db: SessionDB) -> None:
    model = Scripted([calls(("add", {"a": 2, "b": 3})), "It is 5."])
    assert ask(model, [add]) == "It is 5."
    assert model.requests[1].messages[1:] == [
        {"role": "user", "content": "please"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1_1",
                    "type": "function",
                    "function": {"name": "add", "arguments": '{"a":2,"b":3}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1_1", "content": "5"},
    ]
    assert [tool["function"]["name"] for tool in model.requests[1].tools] == ["add"]


def test_no_tools_are_offered_unless_given(db: SessionDB) -> None:
    model = Scripted(["fine"])
    ask(model, [])
    assert model.requests[0].tools == []


def test_the_call_is_recorded_before_it_starts_and_its_result_after(db: SessionDB) -> None:
    ask(Scripted([calls(("add", {"a": 2, "b": 3})), "5"]), [add])
    recorded = rows(db, "TOOL_CALL", "TOOL_STARTED", "TOOL_RESULT")
    graph = db.journal("s").view(CallGraph)
    caller = graph.children(graph.roots()[0].id)[0].id
    key = recorded[1][1].pop("idempotency_key")
    assert len(key) == 32
    assert recorded == [
        (
            "TOOL_CALL",
            {"tool_call_id": "call_1_1", "name": "add", "arguments": {"a": 2, "b": 3}, "called_by": caller},
        ),
        ("TOOL_STARTED", {"tool_call_id": "call_1_1", "called_by": caller}),
        ("TOOL_RESULT", {"tool_call_id": "call_1_1", "result": 5, "called_by": caller}),
    ]


def test_tool_calls_stand_under_the_model_call_that_made_them(db: SessionDB) -> None:
    ask(Scripted([calls(("add", {"a": 2, "b": 3}), ("add", {"a": 1, "b": 1})), "5"]), [add])
    graph = db.journal("s").view(CallGraph)
    first, second = graph.children(graph.roots()[0].id)
    tools = graph.children(first.id)
    assert [(node.kind, node.status) for node in (first, second)] == [("model", "completed")] * 2
    assert [(node.kind, node.name, node.status, node.result) for node in tools] == [
        ("tool", "add", "completed", 5),
        ("tool", "add", "completed", 2),
    ]
    assert (tools[1].predecessor, second.predecessor) == (tools[0].id, first.id)


def test_the_history_of_a_model_call_is_its_message_with_calls_and_results(db: SessionDB) -> None:
    ask(Scripted([{"text": "Let me see.", **calls(("add", {"a": 2, "b": 3}))}, "5"]), [add])
    graph = db.journal("s").view(CallGraph)
    first = graph.children(graph.roots()[0].id)[0]
    messages = fold(db.read("s"), first.id).messages()
    assert [(message["role"], message["content"]) for message in messages] == [
        ("assistant", "Let me see."),
        ("tool", "5"),
    ]
    assert problems(messages) == []


def test_every_request_of_calls_outside_any_function_is_acceptable(db: SessionDB) -> None:
    model = Scripted([calls(("add", {"a": 2, "b": 3})), "It is 5.", "You are welcome."])
    with session_context("s", runtime=Runtime(model)) as session:
        assert session.runtime is not None
        session.runtime.exec("Add 2 and 3", tools=[add])
        session.runtime.exec("Thanks")
    assert model.requests[2].messages == [
        {"role": "user", "content": "Add 2 and 3"},
        {"role": "assistant", "content": "It is 5."},
        {"role": "user", "content": "Thanks"},
    ]
    assert [problem for request in model.requests for problem in provider_problems(request.messages)] == []


def test_calls_of_one_reply_run_at_the_same_time_and_answer_in_their_order(db: SessionDB) -> None:
    meeting = threading.Barrier(3, timeout=20)

    def meet(name: str) -> str:
        meeting.wait()
        time.sleep({"first": 0.02, "second": 0.01, "third": 0.0}[name])
        return name

    model = Scripted([calls(*(("meet", {"name": name}) for name in ("first", "second", "third"))), "done"])
    ask(model, [meet])
    assert [message["content"] for message in model.requests[1].messages[-3:]] == ["first", "second", "third"]


def test_many_tools_that_ask_a_model_themselves_do_not_wait_for_each_other(db: SessionDB) -> None:
    """More than any pool has threads, each needing the model while all are running."""

    def think(topic: str, runtime: Any) -> str:
        answer: str = runtime.exec(topic)
        return answer

    replies = [calls(*(("think", {"topic": str(number)}) for number in range(40)))]
    assert ask(Scripted([*replies, *["thought"] * 40, "done"]), [think]) == "done"
    assert results(db) == ["thought"] * 40


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("add", '{"a": 1'), "they are not the text of one JSON object"),
        (("add", {"a": 1}), "b"),
        (("add", {"a": "x", "b": 1}), "a"),
        (("subtract", {}), "there is no tool 'subtract'; the tools are: add"),
    ],
)
def test_a_call_that_cannot_run_is_told_to_the_model_and_not_started(
    db: SessionDB, call: tuple[str, Any], told: str
) -> None:
    assert ask(Scripted([calls(call), "Sorry."]), [add]) == "Sorry."
    [(_, result)] = rows(db, "TOOL_RESULT")
    assert result["is_error"]
    assert told in result["result"]
    assert rows(db, "TOOL_STARTED") == []


def test_what_is_no_json_object_is_journaled_as_the_model_wrote_it(db: SessionDB) -> None:
    ask(Scripted([calls(("add", '{"a": 1')), "Sorry."]), [add])
    [(_, call)] = rows(db, "TOOL_CALL")
    assert call["arguments"] == '{"a": 1'


def _fail(how: str) -> Any:
    if how == "exit":
        sys.exit(3)
    raise ValueError("no such thing")


async def _fail_async(how: str) -> Any:
    return _fail(how)


@pytest.mark.parametrize("failing", [_fail, _fail_async])
@pytest.mark.parametrize(
    ("how", "told"), [("error", "ValueError: no such thing"), ("exit", "it called sys.exit(3)")]
)
@pytest.mark.parametrize("own_loop", [False, True])
def test_a_tool_that_fails_is_told_to_the_model(
    db: SessionDB, failing: Any, how: str, told: str, own_loop: bool
) -> None:
    model = Scripted([calls((failing.__name__, {"how": how})), "I see."])
    if own_loop:
        asyncio.run(_asked_async(model, [failing]))
    else:
        ask(model, [failing])
    [(_, result)] = rows(db, "TOOL_RESULT")
    assert (result["result"], result["is_error"]) == (told, True)


async def _asked_async(model: Scripted, tools: list[Any]) -> Any:
    async with session_context("s", runtime=Runtime(model)) as session:
        assert session.runtime is not None
        return await session.runtime.aexec("please", tools=tools)


def test_async_tools_of_aexec_run_on_the_callers_loop(db: SessionDB) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def where() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    async def main() -> None:
        await _asked_async(Scripted([calls(("where", {})), "done"]), [where])
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())


def test_async_tools_of_exec_run_in_their_own_thread(db: SessionDB) -> None:
    assert ask(Scripted([calls(("shout", {"text": "hey"})), "done"]), [shout]) == "done"
    assert results(db) == ["HEY"]


def test_what_a_tool_gives_to_await_is_awaited_also_where_it_does_not_look_async(db: SessionDB) -> None:
    @functools.wraps(shout)
    def logged(**given: Any) -> Any:
        return shout(**given)

    model = Scripted([calls(("shout", {"text": "a"})), "done"])
    ask(model, [logged])
    assert results(db) == ["A"]


def test_a_tool_is_in_the_session_and_what_it_calls_is_under_it(db: SessionDB) -> None:
    seen: list[str] = []

    @agentic_function
    def summary(text: str, runtime: Any = None) -> str:
        """Sum it up."""
        answer: str = runtime.exec(text)
        return answer

    def look(topic: str) -> str:
        session = current_session()
        seen.append(session.session_id if session else "")
        return summary(topic)

    ask(Scripted([calls(("look", {"topic": "tides"})), "short", "done"]), [look])
    graph = db.journal("s").view(CallGraph)
    [tool_node] = [node for node in graph.nodes.values() if node.kind == "tool"]
    [nested] = graph.children(tool_node.id)
    assert (seen, nested.name.rpartition(".")[2], nested.result) == (["s"], "summary", "short")


def test_an_agentic_function_is_a_tool(db: SessionDB) -> None:
    @agentic_function
    def research(topic: str, runtime: Any = None) -> str:
        """Find out about a topic."""
        answer: str = runtime.exec(f"What about {topic}?")
        return answer

    model = Scripted([calls(("research", {"topic": "tides"})), "The moon.", "It is the moon."])
    assert ask(model, [research]) == "It is the moon."
    assert model.requests[0].tools[0]["function"]["description"] == "Find out about a topic."
    assert (
        model.requests[1]
        .messages[0]["content"]
        .startswith("Find out about a topic.\n\nArguments:\ntopic: tides")
    )


def test_a_later_exec_sees_what_the_tools_gave_and_the_answer(db: SessionDB) -> None:
    model = Scripted([calls(("add", {"a": 2, "b": 3})), "It is 5.", "Yes."])

    @agentic_function
    def work(what: str, runtime: Any = None) -> str:
        """Work with the tools."""
        runtime.exec("Add them", tools=[add])
        answer: str = runtime.exec("Are you sure?")
        return answer

    work.run("please", session_id="s", runtime=Runtime(model))
    assert model.requests[2].messages[1:] == [
        {"role": "user", "content": "add(a=2, b=3) returned:\n5"},
        {"role": "user", "content": "Add them"},
        {"role": "assistant", "content": "It is 5."},
        {"role": "user", "content": "Are you sure?"},
    ]


def test_an_id_that_a_provider_uses_again_gets_a_number(db: SessionDB) -> None:
    def again(text: str) -> str:
        return text

    for _ in range(2):
        ask(Scripted([calls(("again", {"text": "x"})), "done"]), [again])
    assert [payload["tool_call_id"] for _, payload in rows(db, "TOOL_CALL")] == ["call_1_1", "call_1_1_2"]


def test_a_model_that_never_answers_is_stopped(db: SessionDB) -> None:
    model = Scripted([calls(("add", {"a": 1, "b": 1}))] * 4)
    with pytest.raises(StepLimit, match="raise `steps`"):
        ask(model, [add], steps=3)
    assert (len(model.requests), len(results(db))) == (3, 3)


def test_a_reply_that_does_not_fit_is_asked_for_again_after_the_tools(db: SessionDB) -> None:
    model = Scripted([calls(("add", {"a": 1, "b": 1})), "two", '{"value": 2}'])
    assert ask(model, [add], schema=int) == 2
    assert [message["role"] for message in model.requests[2].messages] == [
        *("system", "user", "assistant", "tool", "assistant", "user"),
    ]


def test_a_tool_that_takes_too_long_is_told_to_the_model(db: SessionDB) -> None:
    done = threading.Event()

    @tool(timeout=0.01)
    def slow() -> str:
        done.wait(20)
        return "late"

    try:
        assert ask(Scripted([calls(("slow", {})), "Too slow."]), [slow]) == "Too slow."
    finally:
        done.set()
    assert results(db) == ["slow was not done after 0.01 s; it may still be running"]


def test_a_tool_is_given_the_key_that_its_record_names(db: SessionDB) -> None:
    keys: list[str] = []

    def pay(amount: int, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return "paid"

    model = Scripted([calls(("pay", {"amount": 1}), ("pay", {"amount": 1})), "done"])
    ask(model, [pay])
    recorded = [payload["idempotency_key"] for _, payload in rows(db, "TOOL_STARTED")]
    assert sorted(recorded) == sorted(keys)
    assert len(set(keys)) == 2
    assert "idempotency_key" not in str(model.requests[0].tools)


def test_a_gated_call_suspends_the_turn_once_its_siblings_are_done(db: SessionDB) -> None:
    ran: list[str] = []

    @tool(needs_approval=True)
    def delete(name: str) -> str:
        ran.append(name)
        return "gone"

    model = Scripted([calls(("delete", {"name": "x"}), ("add", {"a": 1, "b": 1}))])
    with pytest.raises(Suspended) as suspended:
        ask(model, [delete, add])
    assert (suspended.value.wait_ids, ran, results(db)) == (["call_1_1"], [], [2])
    [(_, asked)] = rows(db, "TOOL_APPROVAL_REQUIRED")
    assert (asked["name"], asked["arguments"], len(asked["digest"])) == ("delete", {"name": "x"}, 64)
    assert db.turns("s").last is not None
    assert db.turns("s").last.status == "suspended"


def test_tools_of_one_name_are_refused_before_anything_is_sent(db: SessionDB) -> None:
    model = Scripted(["unused"])
    with pytest.raises(DefinitionError, match="add"):
        ask(model, [add, tool(name="add")(shout)])
    assert model.requests == []


def test_the_record_of_what_was_sent_names_the_tools(db: SessionDB) -> None:
    ask(Scripted([calls(("add", {"a": 2, "b": 3})), "5"]), [add])
    graph = db.journal("s").view(CallGraph)
    nodes = [node for node in graph.nodes.values() if node.kind == "model"]
    sent = [read_sent(db.store, "s", node.context) for node in nodes]
    assert [each["tools"][0]["function"]["name"] for each in sent] == ["add", "add"]
    assert [message["role"] for message in sent[1]["messages"]] == ["system", "user", "assistant", "tool"]


def test_a_result_that_is_no_json_is_converted_for_record_and_model_alike(db: SessionDB) -> None:
    def odd() -> Any:
        return {"when": float("nan"), "what": b"\xff"}

    model = Scripted([calls(("odd", {})), "done"])
    ask(model, [odd])
    assert results(db) == [{"when": "NaN", "what": {"$bytes": "/w=="}}]
    assert model.requests[1].messages[-1]["content"] == '{"when":"NaN","what":{"$bytes":"/w=="}}'
