"""One function, three entry points: the model receives the same bytes and the call graphs are equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.fold.graph import CallGraph
from segue.models.scripted import Scripted
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime
from segue.session.sent import read_sent

PROGRAMS = Path(__file__).parents[1] / "programs"
REPLIES = ["the gull had one leg", "merry", "A gull with one leg stole the bread."]
PLAIN = """
import sys
from segue import session_context
from segue.session.runtime import create_runtime
from story import tell
with session_context("plain", runtime=create_runtime(sys.argv[1])):
    print(tell("a harbour"))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(REPLIES))
    return f"scripted:{path}"


def run(*command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=PROGRAMS, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def from_the_shell(script: str) -> str:
    run(
        sys.executable,
        "-m",
        "segue",
        "run",
        "story:tell",
        "a harbour",
        "--session",
        "shell",
        "--model",
        script,
    )
    return "shell"


def from_plain_code(script: str) -> str:
    run(sys.executable, "-c", PLAIN, script)
    return "plain"


def from_a_test(script: str) -> str:
    sys.path.insert(0, str(PROGRAMS))
    try:
        from story import tell
    finally:
        sys.path.remove(str(PROGRAMS))
    return str(tell.run("a harbour", session_id="test", runtime=Runtime(Scripted(REPLIES))).session_id)


def prompts(db: SessionDB, session_id: str) -> list[Any]:
    nodes = db.journal(session_id).view(CallGraph).nodes.values()
    return [
        read_sent(db.store, session_id, node.context)["messages"] for node in nodes if node.kind == "model"
    ]


def shape(db: SessionDB, session_id: str) -> list[dict[str, Any]]:
    """The graph with ids by order of appearance, without times, source and the model's name."""
    nodes = list(db.journal(session_id).view(CallGraph).nodes.values())
    number = {"": 0, **{node.id: index for index, node in enumerate(nodes, 1)}}
    return [
        {
            "called_by": number[node.called_by],
            "predecessor": number[node.predecessor],
            "name": node.name if node.kind != "model" else "",
            **{
                key: getattr(node, key)
                for key in ("kind", "arguments", "doc", "expose", "status", "result", "attempt")
            },
        }
        for node in nodes
    ]


def test_shell_test_and_plain_code_send_the_same_bytes_and_leave_the_same_graph(script: str) -> None:
    sessions = [from_the_shell(script), from_plain_code(script), from_a_test(script)]
    db = default_db()
    sent = [json.dumps(prompts(db, session_id)) for session_id in sessions]
    assert sent[0] == sent[1] == sent[2]
    graphs = [shape(db, session_id) for session_id in sessions]
    assert graphs[0] == graphs[1] == graphs[2]
    assert len(graphs[0]) == 5
    docstring = "You are a careful writer."
    assert [json.dumps(prompt).count(docstring) for prompt in prompts(db, "shell")] == [0, 1, 1]
    db.close()


def test_from_the_shell_a_question_is_recorded_and_suspends(script: str) -> None:
    command = [sys.executable, "-m", "segue", "run", "story:decide", "the boat", "--session", "asks"]
    done = subprocess.run(
        [*command, "--model", script], capture_output=True, text=True, cwd=PROGRAMS, timeout=60
    )
    assert done.returncode == 3, done.stderr
    db = default_db()
    graph = db.journal("asks").view(CallGraph)
    (root,) = graph.roots()
    (question,) = graph.children(root.id)
    assert (question.kind, question.status, question.name) == (
        "question",
        "suspended",
        "Go on with the boat?",
    )
    assert db.turns("asks").last.status == "suspended"  # type: ignore[union-attr]
    db.close()
