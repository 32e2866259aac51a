"""What a session costs as it grows: Segue beside SQLite, a bare JSONL file and OpenAI Agents' SQLiteSession.

All do the same work (`growth_work`) in one run, on one file system, one after the other in an order that changes every
round. At each length a fresh session of 10 turns is measured beside the long one, so that growth is not mistaken for
what else happens on the machine. Takes about 5 minutes and 1 GB; `--quick` stops at 1,000 turns: about 40 seconds.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from growth_systems import SYSTEMS, Segue, System
from growth_work import MESSAGES, Turn
from harness import Row, scratch, seconds
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

SHORT = 10
LENGTHS = (10, 100, 1_000, 10_000)
NOTHING = 2e-5
"""Seconds: a step that takes less is not one of the system's."""
ERRORS = Console(stderr=True)


class Figures(msgspec.Struct):
    """Of one system at one length, in seconds and bytes. A time is the lower quartile of the rounds: on a disk that
    others use too, the other quarters tell of them."""

    turn: float
    turn_growth: float
    """Over the same time of the session of 10 turns."""
    warm: float
    warm_growth: float
    settle: float
    settle_growth: float
    cold: float
    turn_bytes: float
    """What one more turn adds to the files at rest."""
    disk: int
    """Blocks in use, as the session lies."""
    packed: int
    notes: dict[str, str]
    """What there is to say of its files."""


class Session:
    """One system's session, and the number of its next turn."""

    def __init__(self, make: type[System], folder: Path) -> None:
        self.system = make(folder)
        self.folder = folder
        self.length = 0

    def grow(self, length: int, advance: Callable[[], None]) -> None:
        self.system.fill(self._counted(length, advance))

    def _counted(self, length: int, advance: Callable[[], None]) -> Iterator[Turn]:
        while self.length < length:
            yield self.next()
            advance()

    def next(self) -> Turn:
        self.length += 1
        return Turn(self.length)


class Times(msgspec.Struct):
    turn: list[float] = msgspec.field(default_factory=list)
    warm: list[float] = msgspec.field(default_factory=list)
    settle: list[float] = msgspec.field(default_factory=list)

    def take(self, session: Session) -> None:
        system, turn = session.system, session.next()
        moments = [time.perf_counter()]
        for step in (lambda: system.turn(turn), system.newest, system.settle):
            step()
            moments.append(time.perf_counter())
        self.turn.append(moments[1] - moments[0])
        self.warm.append(moments[2] - moments[0])
        self.settle.append(moments[3] - moments[2])


def run(quick: bool) -> list[Row]:
    lengths = LENGTHS[:3] if quick else LENGTHS
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with scratch() as folder, Progress(*columns, console=ERRORS) as progress:
        task = progress.add_task("growth", total=len(SYSTEMS) * (lengths[-1] + len(lengths) * SHORT))
        figures, raw = measure(folder, lengths, 11 if quick else 51, lambda: progress.advance(task))
    _print(figures, raw)
    return rows(figures, raw)


def measure(
    folder: Path, lengths: tuple[int, ...], rounds: int, advance: Callable[[], None]
) -> tuple[dict[tuple[str, int], Figures], dict[int, int]]:
    """Figures by system and length, and the bytes of the rows as JSON by length."""
    figures: dict[tuple[str, int], Figures] = {}
    raw: dict[int, int] = {}
    sessions = [Session(make, folder / str(number)) for number, make in enumerate(SYSTEMS)]
    for length in lengths:
        short = [Session(make, folder / f"{length}-{number}") for number, make in enumerate(SYSTEMS)]
        for session in short:
            session.grow(SHORT, advance)
        for session in sessions:
            session.grow(length, advance)
        _check_same_work(sessions)
        for name, found in _measured(sessions, short, rounds).items():
            figures[name, length] = found
        raw[length] = sum(path.stat().st_size for path in sessions[0].folder.glob("s1/history/*"))
        for session in short:
            session.system.close()
    for session in sessions:
        session.system.close()
    return figures, raw


def _check_same_work(sessions: list[Session]) -> None:
    """Segue, and those that keep rows, give the same messages; the one that keeps items gives as many."""
    found = [session.system.messages() for session in sessions]
    expected = [(message["role"], message["content"]) for message in found[0]]
    for session, messages in zip(sessions, found, strict=True):
        if session.system.items:
            assert len(messages) * MESSAGES == len(expected) * (MESSAGES + 1)
        else:
            assert [(message["role"], message["content"]) for message in messages] == expected


def _measured(long: list[Session], short: list[Session], rounds: int) -> dict[str, Figures]:
    for session in (*long, *short):
        session.system.newest()  # from now on it is warm
        session.system.pack()
    sizes = [_bytes(session.folder) for session in long]
    times = _timed(long, short, rounds)
    colds: list[list[float]] = [[] for _ in long]
    for at in [*range(len(long))] * 3:
        colds[at].append(seconds(long[at].system.messages))
    return {
        long[at].system.name: _figures(long[at], times[at], colds[at], sizes[at]) for at in range(len(long))
    }


def _timed(long: list[Session], short: list[Session], rounds: int) -> list[tuple[Times, Times]]:
    """Of each system, the times of the long session and of the short one."""
    times = [(Times(), Times()) for _ in long]
    order = list(range(len(long)))
    for number in range(rounds):
        order = order[1:] + order[:1] if number % 2 else order[::-1]
        gc.collect()  # once for all: the process holds millions of objects by now
        for at in order:
            pair = ((times[at][0], long[at]), (times[at][1], short[at]))
            for taken, session in pair if number % 2 else pair[::-1]:
                taken.take(session)
    return times


def _figures(session: Session, taken: tuple[Times, Times], cold: list[float], size: int) -> Figures:
    disk = _blocks(session.folder)
    session.system.pack()
    ours, short = ([_low(values) for values in msgspec.structs.astuple(times)] for times in taken)
    turn, warm, settle = ((time, time / other) for time, other in zip(ours, short, strict=True))
    grown = (_bytes(session.folder) - size) / len(taken[0].turn)
    packed = _blocks(session.folder)
    return Figures(*turn, *warm, *settle, _low(cold), grown, disk, packed, _notes(session))


def _notes(session: Session) -> dict[str, str]:
    system = session.system
    if not isinstance(system, Segue):
        return {}
    parts = {path.name: _blocks(path) for path in sorted((system.folder / "s1").iterdir())}
    sizes = [f"{name} {size / 1e6:.1f}" for name, size in parts.items() if size >= 50_000]
    packs = f"{system.packs()} packs, the longest pause {system.longest:.2f} s"
    return {"packs": packs, "parts": "MB: " + ", ".join(sizes)}


def _low(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


def rows(figures: dict[tuple[str, int], Figures], raw: dict[int, int]) -> list[Row]:
    longest = max(raw)
    ours = figures[Segue.name, longest]
    thousand = figures[Segue.name, 1_000]

    def flat(name: str, ratio: float, detail: str) -> Row:
        return Row(f"growth: {name}, turn 10 -> {longest:,}", ratio, 1.2, detail)

    bytes_at_10 = figures[Segue.name, SHORT].turn_bytes
    disk = f"all of the session's folder over its rows as JSON; {thousand.notes['parts']}"

    def beside(what: str, time: Callable[[Figures], float]) -> Iterator[Row]:
        for name in (make.name for make in SYSTEMS[1:]):
            theirs = time(figures[name, longest])
            detail = f"{time(ours) * 1e3:,.2f} ms over {theirs * 1e3:,.2f} ms"
            yield Row(f"growth: {what} at {longest:,}, over {name}", time(ours) / theirs, None, detail)

    return [
        flat("a durable turn", ours.turn_growth, f"{ours.turn * 1e3:.2f} ms for four appends"),
        flat("the next turn, warm", ours.warm_growth, f"{ours.warm * 1e3:.2f} ms with its messages"),
        flat(
            "a commit",
            ours.settle_growth,
            f"{ours.settle * 1e3:.2f} ms, off the caller's path; {ours.notes['packs']}",
        ),
        flat("bytes a turn, packed", ours.turn_bytes / bytes_at_10, f"{ours.turn_bytes / 1e3:.1f} kB"),
        Row("growth: disk for 1,000 turns, packed", thousand.packed / raw[1_000], 2.5, disk),
        *beside("a durable turn", lambda it: it.turn),
        *beside("opened cold", lambda it: it.cold),
    ]


def _print(figures: dict[tuple[str, int], Figures], raw: dict[int, int]) -> None:
    names = [make.name for make in SYSTEMS]
    shown = Table("turns", "what", *names, title="Growth of one session, 50 events a turn")
    for length in raw:
        shown.add_section()
        for what, text in _lines(raw[length]):
            shown.add_row(f"{length:,}", what, *(text(figures[name, length]) for name in names))
    Console(width=None if sys.stdout.isatty() else 160).print(shown)
    for make in SYSTEMS:
        print(f"{make.name}: {make.note}")


def _lines(raw: int) -> list[tuple[str, Callable[[Figures], str]]]:
    return [
        ("a durable turn, ms (over a session of 10)", lambda it: _growth(it.turn, it.turn_growth)),
        ("the next turn, warm, ms (over 10)", lambda it: _growth(it.warm, it.warm_growth)),
        ("commit of a turn, ms (over 10)", lambda it: _growth(it.settle, it.settle_growth)),
        ("all messages, opened cold, ms", lambda it: f"{it.cold * 1e3:,.1f}"),
        ("kB a turn, packed", lambda it: f"{it.turn_bytes / 1e3:.1f}"),
        ("MB on disk (over Segue's rows as JSON)", lambda it: _disk(it.disk, raw)),
        ("MB on disk, packed", lambda it: _disk(it.packed, raw)),
    ]


def _growth(time: float, growth: float) -> str:
    return f"{time * 1e3:.2f} ({growth:.2f} x)" if time > NOTHING else "-"


def _disk(size: int, raw: int) -> str:
    return f"{size / 1e6:.2f} ({size / raw:.2f} x)"


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in _files(folder))


def _blocks(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    return itertools.chain([folder], folder.rglob("*"))
