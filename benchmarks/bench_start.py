"""What a start costs, beside the interpreter's own: `import segue` and `segue --help`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import Row, medians

BARE = [sys.executable, "-c", "pass"]
IMPORT = [sys.executable, "-c", "import segue"]
HELP = [str(Path(sys.executable).with_name("segue")), "--help"]


def run(quick: bool) -> list[Row]:
    rounds = 7 if quick else 31
    return [
        _row("start: import segue", IMPORT, 4.0, rounds),
        _row("start: segue --help", HELP, 8.0, rounds),
    ]


def _row(name: str, command: list[str], budget: float, rounds: int) -> Row:
    ours, bare = medians(lambda: _start(command), lambda: _start(BARE), rounds)
    return Row(
        name, ours / bare, budget, f"{ours * 1e3:.0f} ms beside {bare * 1e3:.0f} ms for a bare python -c pass"
    )


def _start(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
