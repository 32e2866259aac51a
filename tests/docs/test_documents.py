"""The documents are true: their programs run, their links lead somewhere, their references are up to date."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from segue.cli.main import COMMANDS, cli
from segue.cli.sessions import sessions

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PROGRAMS = [
    pytest.param(
        match[1], id=f"{page.name}:{page.read_text(encoding='utf-8')[: match.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for match in re.finditer(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
]
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_in_the_documents_runs(program: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(
        json.dumps({"rules": [{"contains": "Which tone", "reply": "plain"}], "default": "Owls"})
    )
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    settings = {
        "SEGUE_HOME": str(tmp_path / "home"),
        "SEGUE_MODEL": f"scripted:{answers}",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, str(file)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_there_are_programs_in_the_readme_and_the_concepts() -> None:
    assert {str(program.id).partition(":")[0] for program in PROGRAMS} >= {"README.md", "concepts.md"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_and_make_target_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)) <= targets


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    generator = load("generate_cli")
    assert generator.PAGE.read_text(encoding="utf-8") == generator.page(), "run: python docs/generate_cli.py"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_short_help_of_a_command_is_its_first_line(name: str) -> None:
    with cli.make_context("segue", ["--help"], resilient_parsing=True) as context:
        command = cli.get_command(context, name)
    assert command is not None
    assert command.help is not None
    assert COMMANDS[name][1] == command.help.strip().partition("\n")[0]


def test_every_command_about_one_session_can_be_used_by_programs() -> None:
    assert {
        name for name, command in sessions.commands.items() if "as_json" in {p.name for p in command.params}
    } == {
        "graph",
        "list",
        "repair",
        "search",
        "show",
        "verify",
    }


def test_every_word_of_the_glossary_is_explained_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    words = [
        line.split("|")[1].strip()
        for line in lines
        if line.startswith("| ") and not line.startswith("| word")
    ]
    assert len(words) == len(set(words))
    assert {"session", "turn", "envelope", "journal", "fold", "store", "turn lease", "exchange"} <= set(words)
