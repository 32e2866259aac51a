"""Power loss: of one recorded run, the states in which the disk can be found, at every point of the run."""

from __future__ import annotations

import random
import shutil
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.crash.checking import Case, Row
from tests.crash.disk import SECTOR, Disk, Op, Pieces, Truncate, Write
from tests.crash.kills import Outcome, case_of, rows_of
from tests.crash.recording import OPTIONS, Recording
from tests.crash.scenarios import SCENARIOS, environment, working_folder
from tests.crash.tracing import run_traced
from tests.crash.workers import ROOT, Checker

KEPT = ROOT / ".crash"
"""Recordings with a state in which something was wrong."""
LEAST, MOST = "none", "all"
"""Nothing that was not synced reached the disk; everything did."""
_keeping = threading.Lock()
Kept = list[tuple[Op, Pieces | None]]


@dataclass(frozen=True)
class State:
    """`variant` is `none`, `all`, or `<seed>.<number>` for a random part of what was not synced."""

    scenario: str
    recording: str
    time: int
    variant: str

    @property
    def name(self) -> str:
        return f"power/{self.scenario}/{self.recording}/{self.time}/{self.variant}"

    @classmethod
    def named(cls, name: str) -> State:
        _, scenario, recording, time, variant = name.split("/")
        return cls(scenario, recording, int(time), variant)


class Recorded:
    """One run of a scenario, with all that is needed to make and judge its states."""

    def __init__(self, scenario: str, folder: Path) -> None:
        """Takes the recording that is in the folder. Use `record` to make one."""
        self.scenario = SCENARIOS[scenario]
        self.folder = folder
        self.id = folder.name
        self.before: list[Row] = rows_of(folder / "before", self.scenario.session)
        home = Path((folder / "home.txt").read_text())
        self.recording = Recording(home, Disk(home, folder / "before"))
        self.recording.load(folder / "strace.log")

    def extremes(self) -> list[State]:
        """At every time, if it is another state then: what was synced, and everything."""
        least = [self._state(time, LEAST) for time in (0, *self.recording.learned)]
        most = [self._state(time, MOST) for time in self.recording.changed]
        return sorted([*least, *most], key=lambda state: state.time)

    def random_states(self, seed: int, count: int) -> list[State]:
        chance = random.Random(f"{seed}/{self.scenario.name}")
        found = []
        times = [time for time in self.recording.changed if self._pending(time)]
        rows = [time for time in times if self._pending(time, "history")]
        for number in range(count if times else 0):
            chosen = rows if rows and number % 2 else times  # half of them while rows are not yet durable
            found.append(self._state(chance.choice(chosen), f"{seed}.{number}"))
        return sorted(found, key=lambda state: state.time)

    def run(self, checker: Checker, state: State) -> Outcome:
        """Make the state and check it."""
        home = checker.folder / f"{state.scenario}-{state.time}-{state.variant}"
        self.recording.disk.write_state(self.kept(state), home)
        problems = checker.check(self._case(state, str(home)))
        if problems:
            self.keep()
        return Outcome(state.name, True, problems)

    def kept(self, state: State) -> Kept:
        """The operations that reached the disk, in order."""
        happened = [op for op in self.recording.ops if op.time <= state.time]
        if state.variant == MOST:
            return [(op, None) for op in happened]
        if state.variant == LEAST:
            return [(op, None) for op in happened if not self._optional(op, state.time)]
        chance = random.Random(f"{state.scenario}/{state.time}/{state.variant}")
        return _some(happened, lambda op: self._optional(op, state.time), chance)

    def _state(self, time: int, variant: str) -> State:
        return State(self.scenario.name, self.id, time, variant)

    def keep(self) -> None:
        """Save the recording, so that its states can be made again."""
        with _keeping:
            if not (KEPT / self.id).exists():
                KEPT.mkdir(exist_ok=True)
                shutil.copytree(self.folder, KEPT / self.id)

    def _pending(self, time: int, folder: str = "") -> bool:
        """Whether something may be lost; with a folder's name, something in a folder of that name."""
        return any(
            op.time <= time and self._optional(op, time) and folder in ("", op.path.parent.name)
            for op in self.recording.ops
        )

    @staticmethod
    def _optional(op: Op, time: int) -> bool:
        return op.durable is None or op.durable > time

    def _case(self, state: State, home: str) -> Case:
        """Somebody had seen what was printed, and what readers could see."""
        known = case_of(self.scenario, home, self.before, self.recording.output(state.time))
        session = self.scenario.session
        if not session:
            return msgspec.structs.replace(known, power_lost=True)
        new = self.recording.rows(state.time, session)
        seen = self.recording.seen(state.time, session)
        return msgspec.structs.replace(
            known,
            shown=[*known.shown, *((seq, row_id) for seq, row_id, _ in new if seq <= seen)],
            written=[*((seq, row_id, True) for seq, row_id in self.before), *new],
            power_lost=True,
        )


def kept(state: State) -> Recorded:
    """The recording that a state is of. Raises FileNotFoundError when it is not there."""
    return Recorded(state.scenario, KEPT / state.recording)


def record(scenario: str, folder: Path, plant: str = "") -> Recorded:
    """Run a scenario and record it, in a new folder under this one."""
    recorded = folder / uuid.uuid4().hex[:8]
    recorded.mkdir()
    home = recorded / "home"
    SCENARIOS[scenario].prepare(recorded / "before")
    shutil.copytree(recorded / "before", home, symlinks=True)
    (recorded / "home.txt").write_text(str(home))
    run = run_traced(
        SCENARIOS[scenario].command,
        SCENARIOS[scenario].text,
        folder=working_folder(recorded / "work"),
        environment=environment(home, plant),
        log=recorded / "strace.log",
        options=OPTIONS,
    )
    assert run.code == 0, (recorded / "strace.err").read_text()
    found = Recorded(scenario, recorded)
    _check_complete(found, home)
    shutil.rmtree(home)
    return found


def _check_complete(recorded: Recorded, home: Path) -> None:
    """The recording has seen everything: with all of it, the disk is what the run left behind."""
    copy = recorded.folder / "copy"
    last = State(recorded.scenario.name, recorded.id, recorded.recording.changed[-1], MOST)
    recorded.recording.disk.write_state(recorded.kept(last), copy)
    ours, real = _content(copy), _content(home)
    wrong = sorted(name for name in {*ours, *real} if ours.get(name) != real.get(name))
    assert not wrong, f"the recording does not explain {wrong}"
    shutil.rmtree(copy)


def _content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.name.endswith("-shm")
    }


def _some(happened: list[Op], optional: Callable[[Op], bool], chance: random.Random) -> Kept:
    """A random part of what is optional. In half of the states the entries of folders keep their order, as they do
    on a file system with a journal; in the others every operation is on its own."""
    likely = chance.choice((0.1, 0.5, 0.9))
    journaled = chance.random() < 0.5
    entries = [op for op in happened if optional(op) and not isinstance(op, (Write, Truncate))]
    last = chance.randrange(len(entries) + 1)
    in_journal = set(entries[:last])
    kept: Kept = []
    for op in happened:
        if not optional(op):
            kept.append((op, None))
        elif journaled and not isinstance(op, (Write, Truncate)):
            if op in in_journal:
                kept.append((op, None))
        elif chance.random() < likely:
            kept.append((op, _torn(op, chance) if isinstance(op, Write) else None))
    return kept


def _torn(op: Write, chance: random.Random) -> Pieces | None:
    """Which part of a write reached the disk: all, a beginning, whole lines, some of its sectors,
    or its length alone."""
    kind = chance.choice(("whole", "whole", "beginning", "lines", "sectors", "length"))
    if kind == "whole":
        return None
    if kind == "beginning":
        return ((0, chance.randrange(len(op.data) + 1)),)
    if kind == "lines":
        return ((0, op.data.rfind(b"\n", 0, chance.randrange(len(op.data) + 1)) + 1),)
    if kind == "length":
        return ()
    start = -(op.offset % SECTOR)
    bounds = range(start, len(op.data), SECTOR)
    return tuple((max(0, at), min(at + SECTOR, len(op.data))) for at in bounds if chance.random() < 0.5)
