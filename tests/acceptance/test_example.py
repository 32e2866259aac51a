"""The example that `make run` runs, and `make run`'s own recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Program

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "report.py")


def calls(segue: Program) -> list[tuple[str, str, str]]:
    nodes = segue.json("sessions", "graph", "--json")["nodes"]
    names = {node["id"]: node["name"].rpartition(":")[2] for node in nodes} | {"": ""}
    return [
        (node["kind"], names[node["id"]], names[node["called_by"]])
        for node in nodes
        if node["kind"] != "model"
    ]


def test_the_report_is_written_by_functions_two_deep_behind_a_gate(segue: Program) -> None:
    rules = [
        {"contains": "How long should", "reply": "short"},
        {"contains": "What is the text about?", "reply": "water"},
    ]
    model = segue.script(rules=rules, default="It rained in. And then it was cut o")
    done = segue("run", f"{EXAMPLE}:report", "Report on the roof", "--model", model)
    answer = "What happened (about water)\nIt rained in.\n\nWhat was found (about water)\nIt rained in.\n"
    section = [("function", "write_section", "report"), ("function", "topic_of", "write_section")]
    assert (done.returncode, done.stdout) == (0, answer)
    assert calls(segue) == [("function", "report", ""), *section, *section]


@pytest.mark.local_model
def test_the_local_model_writes_the_report(segue: Program) -> None:
    done = segue("run", f"{EXAMPLE}:report", "Report on the roof for the members", "--model", "local")
    assert done.returncode == 0, done.stderr
    heading = r"What (happened|was found|it costs) \(about (water|tiles|money)\)\n.{20,}?\.(\n\n|\n$)"
    assert re.sub(heading, "", done.stdout, flags=re.DOTALL) == ""


def test_make_run_keeps_its_sessions_out_of_the_home_folder_and_shows_the_graph() -> None:
    recipe = (
        (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nrun: $(MODEL)\n")[2].partition("\n\n")[0]
    )
    commands = [line.strip().removeprefix("@$(BIN)/").split(" ")[:3] for line in recipe.splitlines()]
    assert ["segue", "run", "examples/report.py:report"] in commands
    assert ["segue", "sessions", "graph"] in commands
    assert "run: export SEGUE_HOME = $(RUN_HOME)" in (ROOT / "Makefile").read_text(encoding="utf-8")
