"""A chat that is killed at an append. `mortal.py HOMES` dies in a process of its own before and after each append of
its turns, each time with a new home, `HOMES/NUMBER-before` or `-after`, until it lives to the end; prints those names.

The process that is cloned has no threads and no store: each clone begins as a new process would.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from segue import chat_agent, drive, tool
from segue.errors import Suspended
from segue.models.protocol import ModelRequest
from segue.models.scripted import Scripted
from segue.session.db import SessionDB, default_db
from segue.session.decisions import approve

ADA = {"name": "send", "arguments": {"to": "Ada"}}
CALLS = {"tool_calls": [{"name": "look", "arguments": {}}, ADA]}


def noted(line: str) -> None:
    with Path(os.environ["SEGUE_HOME"], "effects").open("a") as file:
        file.write(f"{line}\n")


def look() -> str:
    noted("look")
    return "x y"


@tool(needs_approval=True)
def send(to: str) -> str:
    noted(f"send {to}")
    return "sent"


def reply(request: ModelRequest) -> Any:
    last = request.messages[-1]["content"]
    return CALLS if last == "write" else f"You said <{last}>."


class Counted(Scripted):
    """Notes each reply that was given whole."""

    async def stream(self, request: ModelRequest) -> Any:
        async for chunk in super().stream(request):
            yield chunk
        noted(f"paid {len(request.messages)}")


def model() -> Scripted:
    return Counted([reply] * 1000)


app = chat_agent(model(), tools=[look, send])


def story(db: SessionDB) -> None:
    """One approved call beside a free one; then one that is superseded."""
    for words in ("write", "write", "thank you"):
        try:
            drive(app, "s", input=words, db=db).run()
        except Suspended as signal_:
            if len(db.turns("s").all) == 1:
                approve(db.journal("s"), signal_.wait_ids[0])
                drive(app, "s", db=db).run()


def mortal(db: SessionDB, number: int, when: str) -> None:
    """Make the store kill this process before or after that append is durable."""
    submit, count = db.store.submit, 0

    def counting(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        future = submit(*given, **options)
        if count == number:
            future.result()
            os.kill(os.getpid(), signal.SIGKILL)
        return future

    db.store.submit = counting  # type: ignore[method-assign]


def dies(home: Path, number: int, when: str) -> bool:
    home.mkdir(parents=True)
    child = os.fork()
    if not child:
        try:
            os.environ["SEGUE_HOME"] = str(home)
            db = default_db()
            mortal(db, number, when)
            story(db)
            db.close()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"{home.name}: it ended with {code}")
    return code != 0


if __name__ == "__main__":
    for number in range(1, 1000):
        for when in ("before", "after"):
            home = Path(sys.argv[1], f"{number}-{when}")
            if not dies(home, number, when):
                sys.exit()
            print(home.name)
