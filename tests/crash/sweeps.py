"""All kills and all power losses of a sweep, counted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.table import Table

from tests.crash.kills import Kills, Outcome, Point
from tests.crash.power import LEAST, MOST, Recorded, State, kept, record
from tests.crash.scenarios import POWERED, SCENARIOS
from tests.crash.workers import Checker, Pool, fast_folder

Seen = Callable[[int, int], None]
"""Told how many cases are done, and how many there are at least."""


@dataclass
class Sweep:
    """What was run, by scenario and kind of case, and what was wrong."""

    title: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    violations: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, scenario: str, kind: str, outcome: Outcome) -> None:
        self.counts[scenario, kind] += 1
        if outcome.problems:
            self.wrong[scenario, kind] += 1
            self.violations.append(outcome)

    @property
    def total(self) -> int:
        return self.counts.total()

    def cases(self, scenario: str) -> int:
        return sum(count for (name, _), count in self.counts.items() if name == scenario)

    def table(self) -> Table:
        table = Table(
            "scenario", "killed at" if self.title == "kills" else "reached the disk", "cases", "violations"
        )
        for (scenario, kind), count in self.counts.items():
            table.add_row(scenario, kind, str(count), str(self.wrong[scenario, kind]))
        table.add_row(f"all {self.title}", "", str(self.total), str(self.wrong.total()), style="bold")
        return table

    def report(self, most: int = 20) -> str:
        """The first violations, with the names that `python -m tests.crash NAME` runs again."""
        lines = [f"{outcome.name}: {'; '.join(outcome.problems)[:600]}" for outcome in self.violations]
        return "\n".join(lines[:most] + ([f"... and {len(lines) - most} more"] if len(lines) > most else []))


def sweep_kills(
    names: Sequence[str] = tuple(SCENARIOS),
    *,
    plant: str = "",
    calls: Sequence[str] = (),
    first: bool = False,
    seen: Seen = lambda done, total: None,
) -> Sweep:
    """Kill at every call of every scenario; with `first`, stop at the first violation."""
    sweep = Sweep("kills")
    kills = Kills(names, plant)
    try:
        with Pool(plant) as pool:
            for outcome in kills.outcomes(pool, seen, calls):
                point = Point.named(outcome.name)
                sweep.add(point.scenario, point.call, outcome)
                if first and sweep.violations:
                    break
    finally:
        kills.close()
    sweep.notes = [
        f"{name}: {kills.calls[name]} calls in a run, {kills.unreached[name]} of them not reached"
        for name in names
    ]
    return sweep


def sweep_power(
    names: Sequence[str] = POWERED,
    *,
    seed: int,
    random_states: int,
    extremes: bool = True,
    plant: str = "",
    first: bool = False,
    seen: Seen = lambda done, total: None,
) -> Sweep:
    """Lose power at every point of every scenario, with so many random states of each."""
    sweep = Sweep("power losses")
    folder = fast_folder()
    try:
        recordings = [record(name, folder, plant) for name in names if name in POWERED]
        cases = [
            (recorded, state)
            for recorded in recordings
            for state in [
                *(recorded.extremes() if extremes else ()),
                *recorded.random_states(seed, random_states),
            ]
        ]
        with Pool(plant) as pool:
            outcomes = pool.map(_run_state, cases)
            for done, ((_, state), outcome) in enumerate(zip(cases, outcomes, strict=True), 1):
                seen(done, len(cases))
                kind = {LEAST: "what was synced", MOST: "everything"}.get(state.variant, "a random part")
                sweep.add(state.scenario, kind, outcome)
                if first and sweep.violations:
                    break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return sweep


def run_again(name: str, plant: str = "") -> Outcome:
    """One case by its name."""
    checker = Checker(plant)
    try:
        if name.startswith("power/"):
            state = State.named(name)
            return kept(state).run(checker, state)
        point = Point.named(name)
        kills = Kills([point.scenario], plant)
        try:
            return kills.run(checker, point)
        finally:
            kills.close()
    finally:
        checker.close()


def _run_state(checker: Checker, case: tuple[Recorded, State]) -> Outcome:
    recorded, state = case
    return recorded.run(checker, state)
