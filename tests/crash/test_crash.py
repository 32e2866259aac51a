"""The installed program, killed at every system call that changes the record, and at every point without power.

What must hold afterwards is in `checking.py`. A violation is printed with a name: `python -m tests.crash NAME` runs
that case again. `make crash` tries far more states of the disk.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterable

import pytest
from rich.console import Console

from tests.conftest import SUMMARY
from tests.crash.scenarios import SCENARIOS
from tests.crash.sweeps import Sweep, run_again, sweep_kills, sweep_power
from tests.crash.tracing import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
RANDOM_STATES = 100
"""Of each scenario's disk, beside the extremes at every time."""
KILLS = {"create": 100, "continue": 100, "commit": 120, "api": 50, "repair": 90, "index": 35}
STATES = {"create": 250, "continue": 220, "commit": 220, "api": 120, "index": 80}
"""Fewer cases than that would mean that the harness does not see what the program does."""


Record = Callable[[str, object], None]


def shown(sweep: Sweep, record: Record, began: float, note: str) -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(sweep.table())
    console.print(f"{note}, {time.monotonic() - began:.0f} s", *sweep.notes, sep="\n", highlight=False)
    record(SUMMARY, console.file.getvalue())


def test_a_kill_at_any_call_breaks_no_promise(record_property: Record) -> None:
    began = time.monotonic()
    sweep = sweep_kills()
    shown(sweep, record_property, began, f"{sweep.total} kills")
    assert not sweep.violations, sweep.report()
    assert {name: max(least, sweep.cases(name)) for name, least in KILLS.items()} == counted(sweep, SCENARIOS)


def test_a_power_loss_at_any_point_breaks_no_promise(record_property: Record) -> None:
    began, seed = time.monotonic(), random.randrange(1 << 32)
    sweep = sweep_power(seed=seed, random_states=RANDOM_STATES)
    shown(sweep, record_property, began, f"{sweep.total} states, seed {seed}")
    assert not sweep.violations, sweep.report()
    assert {name: max(least, sweep.cases(name)) for name, least in STATES.items()} == counted(sweep, STATES)


def counted(sweep: Sweep, names: Iterable[str]) -> dict[str, int]:
    return {name: sweep.cases(name) for name in names}


def test_a_kill_runs_again_by_its_name() -> None:
    outcome = run_again("kill/create/fdatasync/3")
    assert (outcome.happened, outcome.problems) == (True, [])


def test_a_state_runs_again_by_its_name() -> None:
    found = sweep_power(["create"], seed=1, random_states=0, plant="skipped_sync", first=True).violations[0]
    assert run_again(found.name, "skipped_sync").problems == found.problems
