"""Programs that stop and go on in other processes, with the installed program: nothing is done or paid twice."""

from __future__ import annotations

import json
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from segue.models.protocol import ModelRequest
from segue.testing.fake_openai import FakeOpenAI

if TYPE_CHECKING:
    from conftest import Program

MILL = Path(__file__).parent / "programs" / "mill.py"


@pytest.fixture
def mill(segue: Program) -> Program:
    shutil.copy(MILL, segue.folder)
    segue.environment["MILL_EFFECTS"] = str(segue.folder / "effects")
    return segue


def effects(mill: Program) -> list[str]:
    path = mill.folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def waits(mill: Program) -> list[tuple[str, str]]:
    return [(wait["kind"], wait["id"]) for wait in mill.json("approvals", "--json")]


def test_a_suspended_run_says_how_to_decide_and_goes_on_elsewhere(mill: Program) -> None:
    done = mill(
        "run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye"))
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert 'waits for an approval: grind({"kind":"rye","sacks":1})' in done.stderr
    assert re.search(r"segue approve m call_1_1 +\(or deny\)", done.stderr)
    assert waits(mill) == [("approval", "call_1_1")]
    assert mill("approve", "m").returncode == 0
    resumed = mill("resume", "m", "--model", mill.script("Your flour."))
    assert (resumed.returncode, resumed.stdout, effects(mill)) == (0, "Your flour.\n", ["ground 1 rye"])


def test_a_turn_that_still_waits_is_not_resumed(mill: Program) -> None:
    mill("run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye")))
    done = mill("resume", "m")
    assert (done.returncode, effects(mill)) == (3, [])
    assert "waits for an approval" in done.stderr


def test_a_turn_is_not_opened_without_the_model_it_needs(mill: Program) -> None:
    mill("run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye")))
    mill("approve", "m")
    done = mill("resume", "m")
    assert (done.returncode, effects(mill)) == (1, [])
    assert "say which model goes on, --model" in done.stderr
    assert mill("resume", "m", "--model", mill.script("Flour.")).stdout == "Flour.\n"


def test_a_denial_reaches_the_model(mill: Program) -> None:
    mill("run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye")))
    mill("deny", "m", "call_1_1", "--message", "No rye.")
    rules = [{"contains": "it did not run. No rye.", "reply": "Understood."}]
    done = mill("resume", "m", "--model", mill.script(rules=rules))
    assert (done.stdout, effects(mill)) == ("Understood.\n", [])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("approve", "m", "call_9"), 1, "waits for no approval 'call_9'"),
        (("approve", "m", "--edit", "{"), 2, "--edit is not JSON"),
        (("approve", "m", "--edit", "[1]"), 2, "arguments are a JSON object"),
        (("resolve", "m"), 2, "say one of --retry, --skip, --result"),
        (("answer", "m", "-", "yes"), 1, "nothing of that kind waits"),
        (("approve", "nothing-there"), 2, "there is no session"),
        (("resume", "nothing-there"), 2, "there is no session"),
    ],
)
def test_a_decision_that_cannot_be_says_why(
    mill: Program, arguments: tuple[str, ...], code: int, words: str
) -> None:
    mill("run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye")))
    done = mill(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert waits(mill) == [("approval", "call_1_1")]


def test_a_second_decision_is_told_of_the_first(mill: Program) -> None:
    mill("run", "mill:mill", "grind", "--session", "m", "--model", mill.script(call("grind", kind="rye")))
    mill("approve", "m")
    done = mill("deny", "m", "call_1_1")
    assert (done.returncode, "granted already" in done.stderr) == (1, True)


def die_paying(mill: Program) -> None:
    mill.environment["MILL"] = "die"
    script = mill.script(call("pay", amount=5))
    done = mill("run", "mill:mill", "pay", "--session", "m", "--model", script)
    assert done.returncode == -signal.SIGKILL
    del mill.environment["MILL"]


def test_a_tool_that_was_killed_after_its_effect_waits_and_does_not_run_again(mill: Program) -> None:
    die_paying(mill)
    done = mill("resume", "m")
    assert done.returncode == 3, done.stderr
    assert 'outcome unknown: pay({"amount":5' in done.stderr
    assert (waits(mill), len(effects(mill))) == ([("unknown_outcome", "call_1_1")], 1)


@pytest.mark.parametrize(
    ("how", "told", "paid"),
    [
        (("--result", '"paid already"'), "paid already", 1),
        (("--skip",), "nobody knows whether it took effect", 1),
        (("--retry",), "paid", 2),
    ],
)
def test_a_person_says_what_became_of_it(mill: Program, how: tuple[str, ...], told: str, paid: int) -> None:
    die_paying(mill)
    mill("resume", "m")
    assert mill("resolve", "m", *how).returncode == 0
    rules = [{"contains": told, "reply": "Thank you."}]
    done = mill("resume", "m", "--model", mill.script(rules=rules))
    assert (done.returncode, done.stdout) == (0, "Thank you.\n"), done.stderr
    lines = effects(mill)
    assert (len(lines), len(set(lines))) == (paid, 1), "every attempt has the same key"


def test_what_is_done_again_is_what_the_reviewer_made_of_it(mill: Program) -> None:
    """Granted with other arguments, killed while it ran, and done again: never with those that were not granted."""
    mill.environment["MILL"] = "die"
    script = mill.script(call("grind", kind="rye"))
    mill("run", "mill:mill", "grind", "--session", "m", "--model", script)
    mill("approve", "m", "--edit", '{"kind": "oats"}')
    killed = mill("resume", "m", "--model", script)
    assert killed.returncode == -signal.SIGKILL
    del mill.environment["MILL"]
    mill("resume", "m")
    mill("resolve", "m", "--retry")
    mill("resume", "m", "--model", mill.script("Oats."))
    assert effects(mill) == ["ground 1 oats", "ground 1 oats"]


def test_an_idempotent_tool_runs_again_without_asking(mill: Program) -> None:
    mill.environment["MILL"] = "die"
    script = mill.script(call("look", place="cellar"))
    mill("run", "mill:mill", "look", "--session", "m", "--model", script)
    del mill.environment["MILL"]
    done = mill("resume", "m", "--model", mill.script("Nothing there."))
    assert (done.stdout, effects(mill)) == ("Nothing there.\n", ["looked cellar"] * 2)


# --- the whole story ---


class Counting:
    """A model behind HTTP that answers by what it is asked, counts what it answered, and once holds an answer back."""

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.asked = threading.Event()
        self._held = ""
        self._let_go = threading.Event()

    def hold(self, question: str) -> None:
        """The next such question gets no answer: whoever asked it is killed meanwhile."""
        self._held = question
        self.asked.clear()
        self._let_go.clear()

    def let_go(self) -> None:
        self._held = ""
        self._let_go.set()

    def __call__(self, request: ModelRequest) -> Any:
        last = request.messages[-1]
        question = last["content"] if last["role"] == "user" else f"after {last['content']}"
        if self._held and self._held in question:
            self.asked.set()
            self._let_go.wait(60)
            return {"error": {"type": "unavailable"}}
        self.paid[question] += 1
        return self._answer(question)

    def _answer(self, question: str) -> Any:
        if question.startswith("Get flour"):
            return call("mill", order="two sacks")
        if question == "two sacks":
            return call("grind", kind="wheat", sacks=2)
        return f"<{question}>"


@pytest.fixture
def model() -> Iterator[tuple[Counting, FakeOpenAI]]:
    counting = Counting()
    with FakeOpenAI([counting] * 200) as server:
        yield counting, server


def test_a_program_three_deep_goes_on_in_other_processes_and_pays_once(
    mill: Program, model: tuple[Counting, FakeOpenAI]
) -> None:
    counting, server = model
    mill.environment |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "any"}
    first = mill("run", "mill:shop", "bread", "--session", "m", "--model", "openai:any")
    assert first.returncode == 3, first.stderr
    [(kind, _)] = waits(mill)
    assert kind == "approval"
    reword(mill)
    assert mill("approve", "m").returncode == 0

    counting.hold("after 2 sacks of wheat flour")
    running = mill.start("resume", "m", "--model", "openai:any")
    assert counting.asked.wait(60)
    running.kill()
    running.communicate()
    counting.let_go()

    asking = mill("resume", "m")
    assert asking.returncode == 3, asking.stderr
    [(kind, question)] = waits(mill)
    assert kind == "question"
    assert mill("answer", "m", question, "Ada").returncode == 0
    done = mill("resume", "m", "--model", "openai:any", "--output-format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"].startswith("<Ada bakes ")
    assert effects(mill) == ["ground 2 wheat"]
    assert set(counting.paid.values()) == {1}, counting.paid
    assert len(counting.paid) == 7, counting.paid


def reword(mill: Program) -> None:
    """Other docstrings: no part of what makes a step the same one."""
    path = mill.folder / "mill.py"
    text = path.read_text()
    changed = text.replace("You run the mill.", "You run the old mill, kindly.").replace(
        "You are the baker's agent.", "You are the agent of a baker."
    )
    assert changed != text
    time.sleep(0.01)
    path.write_text(changed)
