"""Two processes that check crashed homes, beside two threads that make them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import msgspec

from tests.crash.checking import Case
from tests.crash.scenarios import environment

ROOT = Path(__file__).parents[2]
WORKERS = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def fast_folder() -> Path:
    """A new folder in memory, where there is such a file system: syncing is free there, and nothing here needs it."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="segue-crash-", dir=memory if os.access(memory, os.W_OK) else None))


class Checker:
    """One checking process. `plant` names the planted bug that its product code has."""

    def __init__(self, plant: str = "") -> None:
        self.folder = fast_folder()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.checking"],
            cwd=ROOT,
            env=environment(self.folder / "home", plant),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def check(self, case: Case) -> list[str]:
        """What is wrong with the home, which is used and then removed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(case) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        shutil.rmtree(case.home, ignore_errors=True)
        if not answer:
            raise RuntimeError(f"the checking process ended ({self._process.wait()}) on {case}")
        return msgspec.json.decode(answer, type=list[str])

    def close(self) -> None:
        self._process.communicate(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


class Pool:
    """Runs jobs on `WORKERS` threads, each with a checker."""

    def __init__(self, plant: str = "") -> None:
        self.plant = plant
        self._checkers = [Checker(plant) for _ in range(WORKERS)]
        self._free: SimpleQueue[Checker] = SimpleQueue()
        for checker in self._checkers:
            self._free.put(checker)
        self._threads = ThreadPoolExecutor(WORKERS)

    def map(self, job: Callable[[Checker, Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results, in order."""
        stop = threading.Event()

        def run(item: Item) -> Result | None:
            if stop.is_set():
                return None
            checker = self._free.get()
            try:
                return job(checker, item)
            finally:
                self._free.put(checker)

        try:
            for result in self._threads.map(run, items):
                assert result is not None
                yield result
        finally:
            stop.set()

    def close(self) -> None:
        self._threads.shutdown()
        for checker in self._checkers:
            checker.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
