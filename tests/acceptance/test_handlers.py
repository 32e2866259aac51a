"""Handlers with the installed program, each step in a process of its own: nothing is done or paid twice."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from segue.models.protocol import ModelRequest
from segue.testing.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from conftest import Program

INN = Path(__file__).parent / "programs" / "inn.py"


@pytest.fixture
def inn(segue: Program) -> Program:
    shutil.copy(INN, segue.folder)
    segue.environment["INN_EFFECTS"] = str(segue.folder / "effects")
    return segue


def effects(inn: Program) -> list[str]:
    path = inn.folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def calls(*wanted: Any) -> dict[str, Any]:
    return {"tool_calls": list(wanted)}


def waits(inn: Program) -> list[tuple[str, str]]:
    return [(wait["kind"], wait["id"]) for wait in inn.json("approvals", "--json")]


def test_an_app_answers_and_the_next_message_continues(inn: Program) -> None:
    done = inn("run", "inn:app", "hello", "--session", "i", "--model", inn.script("Good evening."))
    assert (done.returncode, done.stdout) == (0, "Good evening.\n"), done.stderr
    rules = [{"contains": "Good evening.", "reply": "As I said."}]
    done = inn("run", "inn:app", "again?", "--session", "i", "--model", inn.script(rules=rules))
    assert done.stdout == "As I said.\n"
    assert "segue run inn:app" in done.stderr


def test_the_streamed_rows_are_those_of_the_record(inn: Program) -> None:
    done = inn(
        "run",
        "inn:app",
        "hello",
        "--session",
        "i",
        "--output-format",
        "stream-json",
        "--model",
        inn.script("Hm."),
    )
    streamed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["seq"] for row in streamed] == list(range(1, len(streamed) + 1))
    assert (streamed[1]["payload"]["reason"], streamed[-1]["type"]) == (
        {"kind": "user_message", "input": "hello"},
        "NO_MORE_ACTIONS",
    )


def test_a_handler_waits_is_approved_and_goes_on_in_other_processes(inn: Program) -> None:
    first = inn("run", "inn:app", "a room", "--route", "/by-hand", "--session", "i")
    assert (first.returncode, first.stdout) == (3, ""), first.stderr
    assert 'waits for an approval: let({"room":3})' in first.stderr
    assert "resume i inn:app" in first.stderr
    approved = inn("approve", "i")
    assert "resume i MODULE:HANDLER" in approved.stderr
    done = inn("resume", "i", "inn:app")
    assert (done.returncode, done.stdout) == (0, "Done: room 3 is let.\n"), done.stderr
    assert effects(inn) == ["looked 3", "let 3"]


def test_a_denied_call_never_runs_and_fails_a_handler_that_does_not_expect_it(inn: Program) -> None:
    inn("run", "inn:app", "a room", "--route", "/by-hand", "--session", "i")
    inn("deny", "i", "--message", "It is taken.")
    done = inn("resume", "i", "inn:app")
    assert (done.returncode, effects(inn)) == (4, ["looked 3"])
    assert "It is taken." in done.stderr


def test_a_turn_of_a_handler_wants_to_know_where_the_handler_is(inn: Program) -> None:
    inn("run", "inn:app", "a room", "--route", "/by-hand", "--session", "i")
    inn("approve", "i")
    done = inn("resume", "i")
    assert (done.returncode, "resume i MODULE:HANDLER" in done.stderr, effects(inn)) == (
        2,
        True,
        ["looked 3"],
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("inn:app",), "say something to it"),
        (("inn:app", "x", "--arg", "a=1"), "--arg is for functions"),
        (("inn:app", "x", "--route", "/attic"), "there is no route /attic; the routes are: /, /by-hand"),
        (("desk:plain", "x", "--route", "/attic"), "--route is for an AgentApp"),
    ],
)
def test_words_that_do_not_fit_a_handler_are_told(
    inn: Program, arguments: tuple[str, ...], words: str
) -> None:
    inn.file("desk.py", "def plain(text: str) -> str:\n    return text\n")
    done = inn("run", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_tool_that_was_killed_after_its_effect_is_not_run_again(inn: Program) -> None:
    inn.environment["INN"] = "die"
    script = inn.script(calls(call("bill", amount=5), call("look", room=1)))
    assert inn("run", "inn:app", "bill me", "--session", "i", "--model", script).returncode == -signal.SIGKILL
    del inn.environment["INN"]
    done = inn("resume", "i", "inn:app")
    assert (done.returncode, waits(inn)[0]) == (3, ("unknown_outcome", "call_1_1")), done.stderr
    for kind, call_id in waits(inn):
        assert kind == "unknown_outcome"
        assert inn("resolve", "i", call_id, "--result", '"billed before"').returncode == 0
    rules = [{"contains": "billed before", "reply": "Thank you."}]
    done = inn("resume", "i", "inn:app", "--model", inn.script(rules=rules))
    assert (done.stdout, effects(inn).count("billed 5")) == ("Thank you.\n", 1), done.stderr


def test_a_new_message_after_a_kill_leaves_the_old_turn_behind(inn: Program) -> None:
    inn.environment["INN"] = "die"
    script = inn.script(calls(call("bill", amount=5)))
    inn("run", "inn:app", "bill me", "--session", "i", "--model", script)
    del inn.environment["INN"]
    rules = [{"contains": "nobody knows whether it took effect", "reply": "Let us see."}]
    done = inn("run", "inn:app", "what now?", "--session", "i", "--model", inn.script(rules=rules))
    assert (done.returncode, done.stdout, waits(inn)) == (0, "Let us see.\n", []), done.stderr
    assert effects(inn) == ["billed 5"]


# --- the whole story ---


class Counting:
    """A model behind HTTP that answers by what it is asked, counts what it answered, and once holds an answer back."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.asked = threading.Event()
        self._held, self._let_go = "", threading.Event()

    def hold(self, words: str) -> None:
        """The next such request gets no answer: whoever asked is killed meanwhile."""
        self._held = words

    def let_go(self) -> None:
        self._held = ""
        self._let_go.set()

    def __call__(self, request: ModelRequest) -> Any:
        last = request.messages[-1]["content"]
        if self._held and self._held in last:
            self.asked.set()
            self._let_go.wait(60)
            return {"error": {"type": "unavailable"}}
        self.paid[last] += 1
        if last == "two rooms":
            return calls(call("look", room=1), call("let", room=1), call("let", room=2))
        return f"<{last}>"


def test_a_chat_is_suspended_decided_killed_and_goes_on_and_pays_once(inn: Program) -> None:
    counting = Counting()
    with FakeOpenAI([counting] * 50) as server:
        inn.environment |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "any"}
        first = inn("run", "inn:app", "two rooms", "--session", "i", "--model", "openai:any")
        assert (first.returncode, effects(inn)) == (3, ["looked 1"]), first.stderr
        [one, two] = [call_id for _, call_id in waits(inn)]
        assert inn("deny", "i", two, "--message", "One is enough.").returncode == 0
        assert inn("resume", "i", "inn:app", "--model", "openai:any").returncode == 3
        assert inn("approve", "i", one).returncode == 0

        counting.hold("One is enough.")
        running = inn.start("resume", "i", "inn:app", "--model", "openai:any")
        assert counting.asked.wait(60)
        running.kill()
        running.communicate()
        counting.let_go()

        done = inn("resume", "i", "inn:app", "--model", "openai:any")
    assert (done.returncode, "One is enough." in done.stdout) == (0, True), done.stderr
    assert effects(inn) == ["looked 1", "let 1"]
    assert set(counting.paid.values()) == {1}, counting.paid
