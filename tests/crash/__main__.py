"""`python -m tests.crash [NAME ...]`: kill the program at every call, lose power at every point; or run named cases.

Exit code 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.crash.scenarios import PLANTS, SCENARIOS
from tests.crash.sweeps import Seen, Sweep, run_again, sweep_kills, sweep_power
from tests.crash.tracing import missing


def main() -> int:
    options = _parser().parse_args()
    options.scenario = options.scenario or list(SCENARIOS)
    if problem := missing():
        sys.exit(f"the crash harness cannot run: {problem}")
    if options.names:
        return _again(options.names, options.plant)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"seed {options.seed}")
    sweeps = []
    if options.only != "power":
        sweeps.append(
            _shown("kills", lambda seen: sweep_kills(options.scenario, plant=options.plant, seen=seen))
        )
    if options.only != "kill":
        sweeps.append(
            _shown(
                "power losses",
                lambda seen: sweep_power(
                    options.scenario,
                    seed=options.seed,
                    random_states=options.states,
                    plant=options.plant,
                    seen=seen,
                ),
            )
        )
    for sweep in sweeps:
        console.print(sweep.table())
        console.print("\n".join([*sweep.notes, sweep.report()]), markup=False, highlight=False)
    return 1 if any(sweep.violations for sweep in sweeps) else 0


def _again(names: list[str], plant: str) -> int:
    wrong = 0
    for name in names:
        outcome = run_again(name, plant)
        happened = "" if outcome.happened else " (not killed: the run was over before)"
        print(f"{name}{happened}: {'; '.join(outcome.problems) or 'nothing is wrong'}")
        wrong += bool(outcome.problems)
    return 1 if wrong else 0


def _shown(title: str, run: Callable[[Seen], Sweep]) -> Sweep:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=None)
        return run(lambda done, total: progress.update(task, completed=done, total=total))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a case, by the name that was printed")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only these")
    parser.add_argument("--only", choices=["kill", "power"])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--states", type=int, default=1000, help="random states of each scenario's disk")
    parser.add_argument(
        "--plant", choices=PLANTS, default="", help="a planted bug, for a look at how it shows"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
