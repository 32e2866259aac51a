"""The installed program in two terminals, on one session."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program


class Terminal:
    """A `segue run` with a terminal of its own, as its controlling one's foreground job."""

    def __init__(self, segue: Program, *arguments: str) -> None:
        self.screen, theirs = pty.openpty()
        self.process = segue.start(
            *arguments, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def end(self) -> tuple[int, str]:
        """Exit code, and what is on the screen."""
        shown = b""
        while True:
            try:
                part = os.read(self.screen, 4096)
            except OSError:  # nobody has it open any more
                break
            if not part:
                break
            shown += part
        return self.process.wait(30), shown.decode()


@contextmanager
def terminal(segue: Program, function: str, *options: str) -> Iterator[Terminal]:
    opened = Terminal(segue, "run", f"desk:{function}", "--session", "s", *options)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.screen)


@pytest.fixture
def first(segue: Program) -> Iterator[Terminal]:
    """A terminal that is inside a turn of session `s`."""
    ready = segue.folder / "ready"
    with terminal(segue, "sleeps", "--arg", f"ready={ready}") as opened:
        wait_for(ready)
        yield opened


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def statuses(segue: Program) -> list[str]:
    return [turn["status"] for turn in segue.json("sessions", "show", "s", "--json")["turns"]]


def run(segue: Program, *options: str) -> tuple[int, str]:
    with terminal(segue, "facts", "--arg", "n=1", *options) as second:
        return second.end()


def test_the_second_terminal_is_told_once_who_is_at_work(segue: Program, first: Terminal) -> None:
    code, screen = run(segue)
    assert (code, screen.count(str(first.process.pid)), screen.count(os.uname().nodename)) == (5, 1, 1)
    assert "session s is busy: cli (process " in screen
    assert statuses(segue) == ["running"]


def test_the_second_terminal_waits_when_it_is_asked_to(segue: Program, first: Terminal) -> None:
    with terminal(segue, "facts", "--arg", "n=1", "--wait", "60") as second:
        waiting = segue.home / "sessions" / "s" / "lock" / "waiting"
        wait_for(waiting)
        first.process.send_signal(signal.SIGINT)
        assert first.end()[0] == 130
        assert second.end()[0] == 0
    assert statuses(segue) == ["cancelled", "completed"]


def test_a_stopped_terminal_keeps_its_session_and_goes_on_when_it_is_continued(
    segue: Program, first: Terminal
) -> None:
    first.process.send_signal(signal.SIGSTOP)
    code, screen = run(segue, "--wait", "0.5")
    assert (code, str(first.process.pid) in screen) == (5, True)
    first.process.send_signal(signal.SIGCONT)
    first.process.send_signal(signal.SIGTERM)
    assert first.end()[0] == 143
    assert run(segue)[0] == 0
    assert statuses(segue) == ["interrupted", "completed"]


def test_a_title_is_set_while_the_terminal_at_work_is_stopped(segue: Program, first: Terminal) -> None:
    first.process.send_signal(signal.SIGSTOP)
    code = "from segue import default_db; default_db().update_session('s', title='While it sleeps')"
    subprocess.run([segue.python, "-c", code], env=segue.environment, timeout=60, check=True)
    [listed] = segue.json("sessions", "list", "--json")
    assert (listed["title"], listed["status"]) == ("While it sleeps", "running")


def test_a_killed_terminal_leaves_its_session_to_the_second_one(segue: Program, first: Terminal) -> None:
    first.process.kill()
    code, _ = run(segue)
    assert (code, statuses(segue)) == (0, ["interrupted", "completed"])


SERVER = """
from segue import session_context
for number in range(20):
    with session_context("s", source="server", wait=60) as session:
        node = session.writer.append({"kind": "function", "name": "serve", "arguments": {"number": number}})
        session.writer.update(node, status="completed", result=number)
"""


def test_a_server_and_terminals_take_turns(segue: Program) -> None:
    command = [segue.python, "-c", SERVER]
    with subprocess.Popen(command, env=segue.environment, cwd=segue.folder) as server:
        codes = [run(segue, "--wait", "60")[0] for _ in range(3)]
        assert server.wait(60) == 0
    turns = segue.json("sessions", "show", "s", "--json")["turns"]
    assert (codes, {turn["status"] for turn in turns}, len(turns)) == ([0, 0, 0], {"completed"}, 23)
