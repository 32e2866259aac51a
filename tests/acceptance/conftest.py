"""The installed program as a process of its own, with its own home and working folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = [sys.executable, "-m", "segue"]
FOREIGN = ("SEGUE_", "OPENAI_", "ANTHROPIC_", "_SEGUE")


class Program:
    """Runs `segue` in `folder`, where desk.py lies, with its sessions in `home`."""

    python = sys.executable

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "work", folder / "home"
        self.folder.mkdir()
        shutil.copy(PROGRAMS / "desk.py", self.folder)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment = clean | {"SEGUE_HOME": str(self.home), "HOME": str(folder)}

    def __call__(self, *arguments: str, given: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run to the end; `given` is piped in, else there is no input."""
        data = given.encode() if isinstance(given, str) else given
        stdin: dict[str, Any] = {"stdin": subprocess.DEVNULL} if data is None else {"input": data}
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=60,
            check=False,
            **stdin,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen([*PROGRAM, *arguments], cwd=self.folder, env=self.environment, **pipes)

    def json(self, *arguments: str) -> Any:
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def script(self, *replies: Any, rules: list[dict[str, Any]] | None = None, default: Any = None) -> str:
        """A `--model` that answers from a file."""
        path = self.folder / "answers.json"
        script = {"replies": list(replies), "rules": rules or []} | (
            {} if default is None else {"default": default}
        )
        path.write_text(json.dumps(script), encoding="utf-8")
        return f"scripted:{path.name}"

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def segue(tmp_path: Path) -> Program:
    return Program(tmp_path)
