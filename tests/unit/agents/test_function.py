from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

import segue
from segue.agents.function import Run, agentic_function
from segue.errors import DefinitionError, InvalidReply, NoModel, NoSession, RecursionLimit, Suspended
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime


@agentic_function
def outline(topic: str, runtime: Any = None) -> str:
    """Make an outline of three points.

    Each point is one line.
    """
    return str(runtime.exec("The points, please"))


@agentic_function
def paper(topic: str, runtime: Any = None) -> str:
    """Write the paper from its outline."""
    points = outline(topic)
    return str(runtime.exec(f"Write about: {points}"))


def sent(model: Scripted, index: int = -1) -> list[dict[str, Any]]:
    return model.requests[index].messages


def graph(db: SessionDB, session_id: str) -> CallGraph:
    return db.journal(session_id).view(CallGraph)


def test_docstring_and_arguments_are_in_the_prompt_once(db: SessionDB) -> None:
    model = Scripted(["a\nb\nc"])
    assert outline.run("tides", runtime=Runtime(model)).value == "a\nb\nc"
    assert sent(model) == [
        {
            "role": "system",
            "content": "Make an outline of three points.\n\nEach point is one line.\n\nArguments:\ntopic: tides",
        },
        {"role": "user", "content": "The points, please"},
    ]


def test_calls_are_recorded_with_who_called_them_and_what_came_before(db: SessionDB) -> None:
    run = paper.run("tides", runtime=Runtime(Scripted(["a b c", "The paper."])))
    calls = graph(db, run.session_id)
    (root,) = calls.roots()
    inner, model_call = calls.children(root.id)
    assert (root.name.rpartition(":")[2], root.status, root.result) == ("paper", "completed", "The paper.")
    assert (inner.kind, inner.called_by, inner.predecessor, inner.result) == (
        "function",
        root.id,
        "",
        "a b c",
    )
    assert (model_call.kind, model_call.predecessor) == ("model", inner.id)
    assert [node.kind for node in calls.children(inner.id)] == ["model"]


def test_a_root_call_is_one_exchange_that_the_next_one_sees(db: SessionDB) -> None:
    model = Scripted(["the outline", "another outline"])
    first = outline.run("tides", runtime=Runtime(model))
    outline.run("moons", runtime=Runtime(model), session_id=first.session_id)
    assert sent(model)[1:] == [
        {"role": "user", "content": "tides"},
        {"role": "assistant", "content": "the outline"},
        {"role": "user", "content": "The points, please"},
    ]
    assert db.journal(first.session_id).view(Conversation).messages() == [
        {"role": "user", "content": "tides"},
        {"role": "assistant", "content": "the outline"},
        {"role": "user", "content": "moons"},
        {"role": "assistant", "content": "another outline"},
    ]


def test_a_call_sees_its_own_earlier_calls_and_its_caller(db: SessionDB) -> None:
    model = Scripted(["a b c", "The paper."])
    paper.run("tides", runtime=Runtime(model))
    assert "This is a part of paper. Arguments:\ntopic: tides" in sent(model, 0)[0]["content"]
    assert sent(model, 1)[1:] == [
        {"role": "user", "content": "outline(topic=tides) returned:\na b c"},
        {"role": "user", "content": "Write about: a b c"},
    ]


@pytest.mark.parametrize(
    ("expose", "seen"),
    [
        ("io", ["inner(x=1) returned:\nr"]),
        ("llm", ["ask", "r"]),
        ("full", ["ask", "r", "inner(x=1) returned:\nr"]),
        ("hidden", []),
    ],
)
def test_expose_says_what_callers_see_of_the_inside(db: SessionDB, expose: str, seen: list[str]) -> None:
    @agentic_function(expose=expose)
    def inner(x: int, runtime: Any = None) -> str:
        return str(runtime.exec("ask"))

    @agentic_function
    def outer(runtime: Any = None) -> str:
        inner(1)
        return str(runtime.exec("go"))

    inner.function.__qualname__ = "inner"
    inner.name = "m:inner"
    model = Scripted(["r", "done"])
    outer.run(runtime=Runtime(model))
    assert [message["content"] for message in sent(model)] == [*seen, "go"]


def test_render_range_zero_shows_nothing_of_the_outside(db: SessionDB) -> None:
    @agentic_function(render_range={"callers": 0, "subcalls": 0})
    def alone(text: str, runtime: Any = None) -> str:
        runtime.exec("one")
        return str(runtime.exec("two"))

    model = Scripted(["1", "2", "3", "4"])
    run = alone.run("x", runtime=Runtime(model))
    alone.run("y", runtime=Runtime(model), session_id=run.session_id)
    assert [message["content"] for message in sent(model)] == ["Arguments:\ntext: y", "two"]


def test_unknown_options_are_errors_at_once() -> None:
    with pytest.raises(DefinitionError, match="expose='all'"):
        agentic_function(expose="all")
    with pytest.raises(DefinitionError, match="no 'depth'"):
        agentic_function(render_range={"depth": 1})
    with pytest.raises(DefinitionError, match="from 0 on"):
        agentic_function(render_range={"callers": -1})


def _positional(a: int, /) -> None: ...
def _star(*xs: int) -> None: ...
def _stars(**kw: int) -> None: ...
def _generator(a: int) -> Any:
    yield a


@pytest.mark.parametrize(
    ("function", "named"),
    [(_positional, "'a'"), (_star, "'xs'"), (_stars, "'kw'"), (_generator, "generator")],
)
def test_a_function_that_cannot_be_one_is_refused_at_declaration(function: Any, named: str) -> None:
    with pytest.raises(DefinitionError, match=named):
        agentic_function(function)


def test_methods_leave_self_out_of_the_arguments(db: SessionDB) -> None:
    class Desk:
        @agentic_function
        def note(self, text: str) -> str:
            """Take a note."""
            return text.upper()

    with session_context("s"):
        assert Desk().note("hi") == "HI"
    (root,) = graph(db, "s").roots()
    assert root.arguments == {"text": "hi"}
    assert Desk().note.run("ho", session_id="s").value == "HO"


def test_an_exception_that_cannot_say_what_it_is_reaches_its_handler(db: SessionDB) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @agentic_function
    def breaks() -> None:
        raise Mute

    with pytest.raises(Mute):
        breaks.run(session_id="s")
    assert db.turns("s").last.status == "failed"  # type: ignore[union-attr]


def test_a_damaged_session_hides_no_other_in_the_listing(db: SessionDB) -> None:
    for session_id in ("good", "bad"):
        with session_context(session_id) as session:
            session.writer.append({"kind": "function", "name": "f"})
    db.close()
    (segment,) = (db.store.root / "bad" / "history").glob("*")  # type: ignore[attr-defined]
    segment.write_bytes(b"garbage" + segment.read_bytes()[7:])
    reopened = SessionDB(type(db.store)(db.store.root))  # type: ignore[call-arg, attr-defined]
    assert {info.session_id: info.status for info in reopened.list_sessions()} == {
        "good": "completed",
        "bad": "damaged",
    }
    reopened.close()


def test_a_failure_is_recorded_and_the_caller_can_go_on(db: SessionDB) -> None:
    @agentic_function
    def breaks() -> None:
        raise LookupError("nothing there")

    @agentic_function
    def goes_on() -> str:
        try:
            breaks()
        except LookupError:
            return "fine"
        return "never"

    run = goes_on.run()
    (root,) = graph(db, run.session_id).roots()
    (child,) = graph(db, run.session_id).children(root.id)
    assert (run.value, root.status, child.status) == ("fine", "completed", "failed")
    assert child.error == {"type": "LookupError", "message": "nothing there", "code": "LookupError"}


async def test_gathered_calls_have_the_same_caller(db: SessionDB) -> None:
    @agentic_function
    async def part(index: int, runtime: Any = None) -> str:
        return str(await runtime.aexec(f"part {index}"))

    @agentic_function
    async def whole() -> list[str]:
        return list(await asyncio.gather(*(part(index) for index in range(5))))

    model = Scripted([lambda request: request.messages[-1]["content"] + "!"] * 5)
    run: Run = await whole.run(runtime=Runtime(model))
    assert run.value == [f"part {index}!" for index in range(5)]
    calls = graph(db, run.session_id)
    (root,) = calls.roots()
    assert [child.arguments["index"] for child in calls.children(root.id)] == [0, 1, 2, 3, 4]


def test_exec_works_from_synchronous_code_under_a_running_loop(db: SessionDB) -> None:
    async def main() -> str:
        return str(outline.run("x", runtime=Runtime(Scripted(["yes"]))).value)

    assert asyncio.run(main()) == "yes"


def test_runaway_recursion_is_stopped_and_the_depth_restored(db: SessionDB) -> None:
    deepest = 0

    @agentic_function
    def deeper(depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        try:
            return int(deeper(depth + 1))
        except RecursionLimit:
            if depth > 1:
                raise
            return depth

    with session_context("s"):
        assert deeper(1) == 1
        assert deeper(1) == 1
    assert deepest == 64


def test_outside_any_context_the_outermost_call_opens_one_session_and_says_so(
    db: SessionDB, capsys: pytest.CaptureFixture[str]
) -> None:
    @agentic_function
    def inner() -> int:
        return 1

    @agentic_function
    def outer() -> int:
        return inner() + inner()

    assert outer() == 2
    (session_id,) = db.store.sessions()
    assert capsys.readouterr() == ("", f"session: {session_id}\n")


def test_in_a_bare_thread_the_call_is_refused_and_names_the_fix(db: SessionDB) -> None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            outline("x")
        except NoSession as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "segue.ThreadPoolExecutor" in str(caught[0])
    assert db.store.sessions() == []


def test_choices_are_asked_again_until_one_is_given(db: SessionDB) -> None:
    @agentic_function
    def gate(runtime: Any = None) -> str:
        return str(runtime.exec("Go on?", choices=["yes", "no"]))

    model = Scripted(["perhaps", "I say: Yes."])
    assert gate.run(runtime=Runtime(model)).value == "yes"
    assert [message["role"] for message in sent(model)] == ["user", "assistant", "user"]
    with pytest.raises(InvalidReply):
        gate.run(runtime=Runtime(Scripted(["a", "b", "c"])))


def test_a_schema_gives_a_typed_value(db: SessionDB) -> None:
    class Point(msgspec.Struct):
        x: int
        label: str

    @agentic_function
    def locate(runtime: Any = None) -> Any:
        point = runtime.exec("Where?", schema=Point)
        numbers = runtime.exec("Which?", schema=list[int])
        return [point, numbers]

    model = Scripted(['{"x": 3, "label": "a"}', '```json\n{"value": [1, 2]}\n```'])
    assert locate.run(runtime=Runtime(model)).value == [Point(3, "a"), [1, 2]]
    assert model.requests[0].schema is not None
    assert model.requests[1].schema["properties"]["value"]["type"] == "array"  # type: ignore[index]


def test_passing_failures_are_retried_and_what_stays_is_raised(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.session.sending.FIRST_PAUSE", 0.0)
    busy = {"error": {"type": "rate_limited", "message": "slow down", "retry_after": 0}}
    run = outline.run("x", runtime=Runtime(Scripted([busy, busy, "ok"])))
    assert run.value == "ok"
    model_calls = [node for node in graph(db, run.session_id).nodes.values() if node.kind == "model"]
    assert [node.status for node in model_calls] == ["completed"]


def test_without_a_model_a_call_that_needs_one_says_what_to_install(
    db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.models.selection.choose", lambda explicit, settings: None)
    with session_context("s") as session:
        assert session.runtime is None
        with pytest.raises(NoModel, match="pip install"):
            outline("x")


def test_what_a_model_call_was_sent_is_kept(db: SessionDB) -> None:
    from segue.session.sent import read_sent

    model = Scripted(["a b c", "The paper."])
    run = paper.run("tides", runtime=Runtime(model))
    nodes = [node for node in graph(db, run.session_id).nodes.values() if node.kind == "model"]
    kept = [read_sent(db.store, run.session_id, node.context)["messages"] for node in nodes]
    assert kept == [request.messages for request in model.requests]


def test_a_question_suspends_the_turn_and_is_recorded(db: SessionDB) -> None:
    @agentic_function
    def asks() -> str:
        segue.ask_user("Blue or green?", options=["blue", "green"])

    with pytest.raises(segue.errors.Suspended):
        asks.run(session_id="s")
    (root,) = graph(db, "s").roots()
    (question,) = graph(db, "s").children(root.id)
    assert (root.status, question.kind, question.name) == ("suspended", "question", "Blue or green?")
    last = db.turns("s").last
    assert last is not None
    assert (last.status, last.waits) == ("suspended", [question.id])


def test_a_swallowed_suspension_still_suspends(db: SessionDB) -> None:
    @agentic_function
    def swallows(runtime: Any = None) -> str:
        try:
            segue.ask_user("Well?")
        except BaseException:
            return "went on"
        return "never"

    with pytest.raises(Suspended):
        swallows.run(session_id="s")
    assert db.turns("s").last.status == "suspended"  # type: ignore[union-attr]


def test_a_timeout_of_the_users_own_cancels_only_its_node(db: SessionDB) -> None:
    @agentic_function
    async def slow() -> None:
        await asyncio.Event().wait()

    @agentic_function
    async def patient() -> str:
        try:
            async with asyncio.timeout(0.01):
                await slow()
        except TimeoutError:
            return "moved on"
        return "never"

    run = asyncio.run(patient.run(session_id="s"))
    (root,) = graph(db, "s").roots()
    (child,) = graph(db, "s").children(root.id)
    assert (run.value, root.status, child.status) == ("moved on", "completed", "cancelled")


def test_a_bare_exec_in_a_session_is_an_exchange(db: SessionDB) -> None:
    model = Scripted(["hello", "again"])
    with session_context("s", runtime=Runtime(model)) as session:
        assert session.runtime.exec("hi") == "hello"  # type: ignore[union-attr]
        assert session.runtime.exec("and?") == "again"  # type: ignore[union-attr]
    assert [message["content"] for message in sent(model)] == ["hi", "hello", "and?"]
    assert [m["content"] for m in db.journal("s").view(Conversation).messages()] == [
        "hi",
        "hello",
        "and?",
        "again",
    ]
