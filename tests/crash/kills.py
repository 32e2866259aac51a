"""Killing the program at every system call of a run that changes files, one by one."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from segue.stores.git import GitStore
from tests.crash.checking import Case, Row
from tests.crash.scenarios import SCENARIOS, Scenario, environment, working_folder
from tests.crash.tracing import Run, calls, run_traced
from tests.crash.workers import Checker, Pool, fast_folder

CALLS = (
    *(
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "fsync",
        "fdatasync",
        "sync_file_range",
        "ftruncate",
        "truncate",
    ),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat"),
    *("link", "linkat", "symlink", "symlinkat"),
)
"""System calls that change files or make changes durable. Making a file (`openat`) is not among them: what it leaves
is what a kill at the write that comes after it leaves."""


@dataclass(frozen=True)
class Point:
    """Kill at the `number`-th call `call` of a thread; when there is a path, of those that concern it."""

    scenario: str
    call: str
    number: int
    path: str = ""
    """Below the home."""

    @property
    def name(self) -> str:
        return f"kill/{self.scenario}/{self.call}/{self.number}" + (f"/{self.path}" if self.path else "")

    @classmethod
    def named(cls, name: str) -> Point:
        _, scenario, call, number, *path = name.split("/", 4)
        return cls(scenario, call, int(number), *path)

    @property
    def next(self) -> Point:
        return replace(self, number=self.number + 1)


@dataclass(frozen=True)
class Outcome:
    name: str
    happened: bool
    """False when the run was over before it came to that call."""
    problems: list[str]


class Kills:
    """All kill points of some scenarios. `plant` names a planted bug."""

    def __init__(self, names: Sequence[str] = tuple(SCENARIOS), plant: str = "") -> None:
        self.scenarios = [SCENARIOS[name] for name in names]
        self.plant = plant
        self.folder = fast_folder()
        self.calls: dict[str, int] = {}
        """How many calls a run of each scenario makes, of those that it can be killed at."""
        self.unreached: dict[str, int] = {}
        """How many of them cannot be killed at: another thread's call has the number, and the path is a new one each
        time. Most are writes to files that get their name afterwards."""
        self._rows: dict[str, list[Row]] = {}
        for scenario in self.scenarios:
            self._prepare(scenario)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def outcomes(
        self,
        pool: Pool,
        seen: Callable[[int, int], None] = lambda done, total: None,
        only: Sequence[str] = (),
    ) -> Iterator[Outcome]:
        """Of every point, or those at some calls. A call is killed at ever higher numbers until a run survives: so
        none is left out."""
        found = [point for scenario in self.scenarios for point in self._points(scenario)]
        points = [point for point in found if not only or point.call in only]
        done = 0
        while points:
            total, further = done + len(points), []
            for point, outcome in zip(points, pool.map(self.run, points), strict=True):
                done += 1
                seen(done, total)
                if outcome.happened:
                    yield outcome
                    if point.next not in points:
                        further.append(point.next)
            points = further

    def run(self, checker: Checker, point: Point) -> Outcome:
        """Run, kill, check."""
        scenario = SCENARIOS[point.scenario]
        folder = checker.folder / point.name.replace("/", "-")
        options = ["-e", f"trace={point.call}", "-e", f"inject={point.call}:signal=KILL:when={point.number}"]
        options += ["-P", str(folder / "home" / point.path)] if point.path else []
        run = self._execute(scenario, folder, options)
        happened = run.code == -9
        problems = [] if happened or run.code == 0 else [f"the program failed: exit code {run.code}"]
        if not problems:
            home = str(folder / "home")
            problems = checker.check(case_of(scenario, home, self._rows[scenario.name], run.output))
        shutil.rmtree(folder, ignore_errors=True)
        return Outcome(point.name, happened, problems)

    def _prepare(self, scenario: Scenario) -> None:
        home = self.folder / scenario.name
        scenario.prepare(home)
        self._rows[scenario.name] = rows_of(home, scenario.session)
        if scenario.damage is not None:
            scenario.damage(home)

    def _points(self, scenario: Scenario) -> Iterator[Point]:
        """Every call of a run that nobody kills. strace counts each thread's calls on its own, so a number belongs to
        the thread that gets there first; the calls of the others are told apart by the paths that they concern."""
        first, second = self._counted(scenario), self._counted(scenario)
        stable = {path for call in first for path in call[2]} & {path for call in second for path in call[2]}
        counts: Counter[tuple[str, int]] = Counter()
        wanted: dict[Point, None] = {}
        reached = 0
        for name, thread, paths in first:
            counts[name, thread] += 1
            point = Point(scenario.name, name, counts[name, thread])
            if point not in wanted:
                wanted[point] = None
            elif known := sorted(paths & stable):
                lane = [point for point in wanted if (point.call, point.path) == (name, known[-1])]
                wanted[Point(scenario.name, name, len(lane) + 1, known[-1])] = None
            else:
                reached += 1
        self.calls[scenario.name], self.unreached[scenario.name] = len(first), reached
        yield from wanted

    def _counted(self, scenario: Scenario) -> list[tuple[str, int, set[str]]]:
        """Name, thread, and paths below the home, of each call of a run."""
        folder = self.folder / "counted"
        names = ",".join(f"?{name}" for name in CALLS)
        run = self._execute(scenario, folder, ["-e", f"trace={names}"])
        assert run.code == 0, (folder / "strace.err").read_text()
        made = calls(folder / "strace.log")
        shutil.rmtree(folder)
        below = re.compile(re.escape(f"{folder / 'home'}/") + r"([^\"<>]*)")
        return [(call.name, call.thread, set(below.findall(call.text))) for call in made]

    def _execute(self, scenario: Scenario, folder: Path, options: Sequence[str]) -> Run:
        folder.mkdir()
        shutil.copytree(self.folder / scenario.name, folder / "home", symlinks=True)
        return run_traced(
            scenario.command,
            scenario.text,
            folder=working_folder(folder / "work"),
            environment=environment(folder / "home", self.plant),
            log=folder / "strace.log",
            options=options,
        )


def rows_of(home: Path, session_id: str) -> list[Row]:
    """Seq and id of a session's rows."""
    store = GitStore(home / "sessions", commits=False)
    try:
        if not session_id or not store.exists(session_id):
            return []
        return [(row.seq, row.id) for row in store.read(session_id)]
    finally:
        store.close()


def case_of(scenario: Scenario, home: str, before: list[Row], output: bytes) -> Case:
    """What is known after a run that printed so much: each complete line is a promise."""
    lines = output.decode("utf-8", "replace").split("\n")[:-1]
    repairs = scenario.damage is not None
    printed = [json.loads(line) for line in lines] if scenario.session and not repairs else []
    deleted = [name for line, name in scenario.deleted.items() if line in lines]
    return Case(
        home=home,
        session=scenario.session,
        shown=[*before, *((row["seq"], row["id"]) for row in printed)],
        present=[*scenario.kept, *(name for line, name in scenario.made.items() if line in lines)],
        absent=deleted,
        titles=dict(title for line, title in scenario.titles.items() if line in lines),
        repairs=repairs,
    )
