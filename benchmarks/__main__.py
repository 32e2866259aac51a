"""`python -m benchmarks [name ...] [--quick] [--json FILE]`: run all bench_*.py, or those named, as a table.

Exit code 1 when a budget is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))  # benchmarks import `harness`, whether run from here or one by one

from harness import Row  # noqa: E402


def main() -> int:
    options = _parser().parse_args()
    rows = [row for name in options.names or all_names() for row in run_one(name, options.quick)]
    Console(width=None if sys.stdout.isatty() else 160).print(table(rows))
    if options.json:
        figures = [
            {**{key: getattr(row, key) for key in row.__struct_fields__}, "met": row.met} for row in rows
        ]
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 1 if any(row.met is False for row in rows) else 0


def all_names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))


def run_one(name: str, quick: bool) -> list[Row]:
    print(f"running {name} ...", file=sys.stderr, flush=True)
    rows: list[Row] = importlib.import_module(f"bench_{name}").run(quick)
    return rows


def table(rows: list[Row]) -> Table:
    shown = Table("benchmark", "ratio", "budget", "", "what was compared")
    for row in rows:
        bound = "" if row.budget is None else f"{'>=' if row.floor else '<='} {row.budget:g}"
        verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[row.met]
        shown.add_row(row.name, f"{row.ratio:.2f}", bound, verdict, row.detail)
    return shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(all_names())}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
