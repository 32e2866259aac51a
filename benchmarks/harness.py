"""What every benchmark shares: a figure is a ratio to a physical baseline, both taken in the same run."""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True):
    name: str
    ratio: float
    """Ours over the baseline, unless `detail` says otherwise."""
    budget: float | None
    """The ratio must not be above it; None where nothing is promised."""
    detail: str
    """What was compared with what, and absolute figures to read the ratio by."""
    floor: bool = False
    """The budget is a lower bound: the ratio must not be below it."""

    @property
    def met(self) -> bool | None:
        if self.budget is None:
            return None
        return self.ratio >= self.budget if self.floor else self.ratio <= self.budget


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for the files of a benchmark, under SEGUE_BENCH_DIR if that is set."""
    with tempfile.TemporaryDirectory(prefix="segue-bench-", dir=os.environ.get("SEGUE_BENCH_DIR")) as folder:
        yield Path(folder)


def paired(ours: Callable[[], Any], baseline: Callable[[], Any], rounds: int = 15) -> float:
    """Ratio of the medians. The two alternate, so that a load on the machine hits both alike."""
    ours_seconds, baseline_seconds = medians(ours, baseline, rounds)
    return ours_seconds / baseline_seconds


def medians(ours: Callable[[], Any], baseline: Callable[[], Any], rounds: int = 15) -> tuple[float, float]:
    """Median seconds of each, taken in turns after one unmeasured round; the order swaps every round."""
    ours(), baseline()
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            times[index].append(seconds((ours, baseline)[index]))
    return statistics.median(times[0]), statistics.median(times[1])


def seconds(work: Callable[[], Any]) -> float:
    """How long one call takes, without a garbage collection of what came before it."""
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
