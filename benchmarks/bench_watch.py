"""A row that one process appends and another one watches, beside the same bytes and a byte through a pipe."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_store import drafts
from harness import Row, scratch

from segue.stores.git import GitStore
from segue.stores.git.session import framed

PROGRAM = Path(__file__).parent / "watch_process.py"
PAUSE = 0.005
"""Seconds between two rows: the watcher is waiting when one comes."""
IDLE = 100
"""Sessions that one process watches while nothing happens."""


def run(quick: bool) -> list[Row]:
    with scratch() as folder:
        return [
            *latency(folder, 200 if quick else 1000),
            idle(folder, 3.0 if quick else 10.0),
            throughput(folder, 100_000),
        ]


@contextmanager
def other(what: str, root: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(PROGRAM), what, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process


def latency(folder: Path, count: int) -> list[Row]:
    """Both pay for a write and an fdatasync, so what differs is the way to the other process."""
    store = GitStore(folder / "latency", commits=False)
    store.create("s1")
    lease = store.acquire("s1", holder="benchmark")
    descriptor = os.open(folder / "latency" / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = framed("s1", 1, drafts(1))

    def append(process: subprocess.Popen[bytes]) -> None:
        store.append("s1", drafts(1), lease=lease)

    def write_and_tell(process: subprocess.Popen[bytes]) -> None:
        os.write(descriptor, line)
        os.fdatasync(descriptor)
        assert process.stdin is not None
        process.stdin.write(b".")

    ours = timed("watch", folder / "latency", append, count)
    pipe = timed("pipe", folder / "latency", write_and_tell, count)
    store.close()
    os.close(descriptor)
    shown = f"p50/p99 {both(ours)} ms over {both(pipe)} ms"
    p50 = statistics.median(ours)
    return [
        Row(
            "append -> row, other process",
            p50 / statistics.median(pipe),
            None,
            f"{shown}: the same bytes, synced, and a byte through a pipe",
        ),
        Row("the same over 5 ms", p50 / 0.005, 1.0, f"p50 of {count:,} rows, one every {PAUSE * 1e3:g} ms"),
    ]


def timed(what: str, root: Path, send: Callable[[subprocess.Popen[bytes]], None], count: int) -> list[float]:
    """Seconds from the call that sends a row to the other process having it."""
    sent = []
    with other(what, root) as process:
        for _ in range(count):
            time.sleep(PAUSE)
            sent.append(time.monotonic_ns())
            send(process)
        time.sleep(0.5)
        seen = [int(text.split()[1]) for text in process.communicate()[0].splitlines()]
    assert len(seen) == count, f"{what}: {len(seen)} of {count} were seen"
    return [(after - before) / 1e9 for before, after in zip(sent, seen, strict=True)]


def both(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1e3:.2f}/{ordered[len(ordered) * 99 // 100] * 1e3:.2f}"


def idle(folder: Path, seconds: float) -> Row:
    store = GitStore(folder / "idle")
    for number in range(IDLE):
        store.create(f"s{number}")
        store.append(f"s{number}", [])
    store.close()
    with other("idle", folder / "idle") as process:
        assert process.stdin is not None
        time.sleep(1)
        process.stdin.write(b".")
        time.sleep(seconds)
        process.stdin.write(b".")
        used = float(process.communicate()[0])
    detail = f"processor time of {IDLE} idle watchers over the time; {used * 1e3:.0f} ms in {seconds:g} s"
    return Row("idle watchers", used / seconds, 0.01, detail)


def throughput(folder: Path, count: int) -> Row:
    store = GitStore(folder / "rows", commits=False)
    store.create("s1")
    lease = store.acquire("s1", holder="benchmark")
    for _ in range(count // 1000):
        store.append("s1", drafts(1000), lease=lease)
    store.close()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "rows", str(folder / "rows")],
        capture_output=True,
        check=True,
        text=True,
    )
    times = [tuple(map(float, line.split())) for line in done.stdout.splitlines()[1:]]
    read, watched = (statistics.median(column) for column in zip(*times, strict=True))
    detail = f"over reading the same {count:,} rows; {count / watched:,.0f} rows a second"
    return Row("watching rows that are there", watched / read, 1.2, detail)
