"""Somebody sits at the terminal: they are asked there, and the turn goes on. Nobody is: nothing is asked."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Program

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 60.0
AT_TERMINAL = """
import os, sys
os.setsid()
os.close(os.open(os.ttyname(2), os.O_RDWR))  # the controlling terminal from here on
os.execv(sys.executable, [sys.executable, "-m", "segue", *sys.argv[1:]])
"""


class Terminal:
    """The program at a terminal of its own; its answer goes to a pipe."""

    def __init__(self, segue: Program, *arguments: str) -> None:
        self._screen, end = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *arguments],
            cwd=segue.folder,
            env=segue.environment,
            stdin=end,
            stderr=end,
            stdout=subprocess.PIPE,
        )
        os.close(end)
        self.seen, self._read = "", 0

    def until(self, text: str) -> None:
        """Wait until the screen shows that, after what was waited for before."""
        deadline = time.monotonic() + SECONDS
        while (at := self.seen.find(text, self._read)) < 0:
            assert select.select([self._screen], [], [], max(0, deadline - time.monotonic()))[0], self.seen
            try:
                more = os.read(self._screen, 65536)
            except OSError:  # the other end is closed
                more = b""
            assert more, f"it ended without {text!r}: {self.seen}"
            self.seen += more.decode()
        self._read = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def says(self, *exchanges: tuple[str, str]) -> None:
        for prompt, answer in exchanges:
            self.until(prompt)
            self.type(f"{answer}\n")

    def end(self) -> tuple[int, str]:
        """Exit code, and what standard output got."""
        assert self.process.stdout is not None
        answer = self.process.stdout.read().decode()
        code = self.process.wait(SECONDS)
        while select.select([self._screen], [], [], 0)[0]:
            try:
                more = os.read(self._screen, 65536)
            except OSError:
                break
            if not more:
                break
            self.seen += more.decode(errors="replace")
        return code, answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        os.close(self._screen)


At = Callable[..., Terminal]


@pytest.fixture
def mill(segue: Program) -> Program:
    for name in ("mill.py", "form.py"):
        shutil.copy(PROGRAMS / name, segue.folder)
    segue.environment["MILL_EFFECTS"] = str(segue.folder / "effects")
    return segue


@pytest.fixture
def at(mill: Program) -> Iterator[At]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(mill, *arguments))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


def effects(mill: Program) -> list[str]:
    path = mill.folder / "effects"
    return path.read_text().splitlines() if path.exists() else []


def grind(mill: Program, *kinds: str, more: Any = ()) -> list[str]:
    calls = [{"name": "grind", "arguments": {"kind": kind}} for kind in kinds]
    model = mill.script({"tool_calls": calls}, *more, "Your flour.")
    return ["run", "mill:mill", "grind", "--session", "m", "--model", model]


MENU = "[a]pprove, [d]eny"


def test_an_approval_at_the_terminal_lets_the_same_process_go_on(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye"))
    terminal.says((MENU, ""), (MENU, "yes"), (MENU, "a"))  # neither nothing nor another word is an approval
    assert terminal.end() == (0, "Your flour.\n")
    assert 'waits for an approval: grind({"kind":"rye","sacks":1})' in terminal.seen
    assert effects(mill) == ["ground 1 rye"]


def test_each_call_is_decided_for_itself(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye", "oats"))
    terminal.says((MENU, "d"), ("words to the model", "No rye."), (MENU, "a"))
    assert terminal.end() == (0, "Your flour.\n")
    assert effects(mill) == ["ground 1 oats"]
    assert "it did not run. No rye." in str(mill.json("sessions", "graph", "m", "--json"))


def test_an_edited_call_runs_as_edited(mill: Program, at: At) -> None:
    editor = mill.file("editor.sh", '#!/bin/sh\necho \'{"kind": "oats", "sacks": 3}\' > "$1"\n')
    editor.chmod(0o755)
    mill.environment |= {"VISUAL": str(editor), "EDITOR": str(editor)}
    terminal = at(*grind(mill, "rye"))
    terminal.says((MENU, "e"))
    assert terminal.end() == (0, "Your flour.\n")
    assert effects(mill) == ["ground 3 oats"]


def test_always_is_asked_once(mill: Program, at: At) -> None:
    again = {"tool_calls": [{"name": "grind", "arguments": {"kind": "oats", "sacks": 9}}]}
    terminal = at(*grind(mill, "rye", more=[again]))
    terminal.says((MENU, "w"), ("[t]hese arguments, with [a]ny", "a"))
    assert terminal.end() == (0, "Your flour.\n")
    assert effects(mill) == ["ground 1 rye", "ground 9 oats"]
    [rule] = mill.json("rules", "m", "--json")
    assert (rule["tool"], rule["arguments"]) == ("grind", None)
    assert mill("rules", "m", "--withdraw", rule["id"]).returncode == 0
    assert mill.json("rules", "--json") == []


def test_what_is_left_for_later_waits_and_resume_asks_again(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye"))
    terminal.says((MENU, "l"))
    assert terminal.end() == (3, "")
    assert "segue approve m call_1_1" in terminal.seen
    later = at("resume", "m", "--model", mill.script("Late flour."))
    later.says((MENU, "a"))
    assert later.end() == (0, "Late flour.\n")
    assert effects(mill) == ["ground 1 rye"]


@pytest.mark.parametrize(("key", "code"), [("\x04", 3), ("a\x04\x04", 3), ("\x03", 130)])
def test_no_end_of_input_and_no_interrupt_is_a_decision(mill: Program, at: At, key: str, code: int) -> None:
    terminal = at(*grind(mill, "rye"))
    terminal.until(MENU)
    terminal.type(key)
    assert terminal.end() == (code, "")
    assert "Traceback" not in terminal.seen
    assert [wait["id"] for wait in mill.json("approvals", "--json")] == ["call_1_1"]
    assert effects(mill) == []


def test_a_signal_at_the_prompt_leaves_the_call_waiting(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye"))
    terminal.until(MENU)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end()[0] in (143, -signal.SIGTERM)
    assert [wait["id"] for wait in mill.json("approvals", "--json")] == ["call_1_1"]


def test_a_decision_from_elsewhere_while_the_prompt_is_open_counts(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye"))
    terminal.until(MENU)
    assert mill("deny", "m").returncode == 0
    terminal.type("a\n")
    assert terminal.end() == (0, "Your flour.\n")
    assert "denied already" in terminal.seen
    assert effects(mill) == []


def test_questions_are_asked_in_a_row_each_checked(mill: Program, at: At) -> None:
    terminal = at("run", "form:book", "Ada", "--session", "f")
    terminal.says(("Where does Ada go?", ""), ("answer: ", "Bern"))
    terminal.says(("1. fish", ""), ("number: ", "3"), ("a number from 1 to 2", "2"))
    terminal.says(("nights (integer): ", "two"), ("nights (integer): ", "2"))
    terminal.says(('room ("quiet" | "large"): ', "loud"), ('room ("quiet" | "large"): ', "quiet"))
    terminal.says(("note (string, may be left out): ", ""))
    assert terminal.end() == (0, "Bern: soup, 2 nights, quiet, no note\n")


def test_machine_formats_are_never_interrupted_by_a_question(mill: Program, at: At) -> None:
    terminal = at(*grind(mill, "rye"), "--output-format", "json")
    code, answer = terminal.end()
    assert (code, '"status":"suspended"' in answer) == (3, True)
    assert MENU not in terminal.seen


@pytest.mark.parametrize("stdin", ["closed", "null", "idle", "yes"])
def test_without_a_terminal_nothing_is_asked_and_nothing_approved(mill: Program, stdin: str) -> None:
    """Scenario B061."""
    read, write = os.pipe()
    if stdin == "yes":
        os.write(write, b"a\ny\n")
        os.close(write)
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL if stdin == "null" else read}
    words = grind(mill, "rye")
    if stdin == "closed":
        run = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "segue", *words]
    else:
        run = [sys.executable, "-m", "segue", *words]
    done = subprocess.run(
        run,
        cwd=mill.folder,
        env={**mill.environment, "TERM": "dumb"},
        capture_output=True,
        timeout=SECONDS,
        **options,
    )
    os.close(read)
    if stdin != "yes":
        os.close(write)
    told = done.stderr.decode()
    assert (done.returncode, done.stdout) == (3, b"")
    assert ("segue approve m call_1_1" in told, "Traceback" in told, MENU in told) == (True, False, False)
    assert [wait["id"] for wait in mill.json("approvals", "--json")] == ["call_1_1"]
    assert effects(mill) == []
