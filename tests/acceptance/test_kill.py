"""kill -9 of a running `segue run` at random points: what it acknowledged is there, and the session goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from segue.fold.conversation import Conversation
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import default_db
from segue.session.runtime import Runtime
from segue.stores.git import GitStore
from segue.testing.validity import problems

PROGRAMS = Path(__file__).parents[1] / "programs"
POINTS = 50
ROWS = 30
"""About as many rows as one run of the program writes; a point is a row and a fraction of a millisecond after it."""


def start(script: Path, session_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "segue", "run", "story:tell", "a harbour", "--session", session_id]
    options = ["--model", f"scripted:{script}", "--output-format", "stream-json"]
    return subprocess.Popen(
        [*command, *options],
        cwd=PROGRAMS,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )


def killed_after(process: subprocess.Popen[bytes], rows: int, delay: float) -> list[str]:
    """The ids of the rows that the process had shown when it was killed, `delay` seconds after `rows` of them."""
    shown: list[str] = []
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            shown.append(json.loads(line)["id"])
            if len(shown) == rows:
                threading.Timer(delay, process.kill).start()
    return shown


def test_kill_at_50_random_points_loses_nothing_that_was_shown(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    replies = [
        {"text": text, "delay": 0.002}
        for text in ("one leg", "merry", "A gull with one leg stole the bread.")
    ]
    script.write_text(json.dumps(replies))
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    killed = 0
    for point in range(POINTS):
        session_id = f"killed-{point % 5}"
        process = start(script, session_id)
        shown = killed_after(process, chance.randrange(1, ROWS), chance.random() * 0.005)
        killed += process.returncode == -signal.SIGKILL
        check_and_continue(session_id, shown, f"seed {seed}, point {point}")
    assert killed >= POINTS // 2, f"only {killed} of {POINTS} runs were killed before they were done"


def check_and_continue(session_id: str, shown: list[str], where: str) -> None:
    db = default_db()
    if not db.store.exists(session_id):
        assert shown == [], where
        return
    rows = list(db.read(session_id))
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), where
    assert set(shown) <= {row.id for row in rows}, where
    with session_context(session_id, runtime=Runtime(Scripted(["still here"]))) as session:
        assert session.runtime is not None
        assert session.runtime.exec("Are you there?") == "still here", where
    history = db.journal(session_id).view(Conversation).messages()
    assert problems(history) == [], where
    assert [turn.status for turn in db.turns(session_id).all].count("running") == 0, where
    assert isinstance(db.store, GitStore)
    assert db.store.drain_commits(20), where
    repository = Path(os.environ["SEGUE_HOME"]) / "sessions" / session_id
    checked = subprocess.run(
        ["git", "-C", repository, "fsck", "--strict", "--no-progress"], capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, ""), where
