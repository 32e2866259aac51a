"""The other process of bench_watch.py: `python watch_process.py <what> <root>`. What it measured goes to stdout.

watch  says `ready`, then watches 1,000 rows at most; a line `seq time` for each, once stdin ends
pipe   says `ready`, then reads a byte a row from stdin; the same lines
idle   watches all sessions, says `ready`; a line with the processor seconds used, once stdin ends
rows   seconds of a plain read and of a watch of all rows, five times in turns

Times are of CLOCK_MONOTONIC, in nanoseconds: one clock for both processes.
"""

from __future__ import annotations

import sys
import threading
import time

from segue.stores.git import GitStore
from segue.stores.protocol import Stop


def watch(root: str) -> None:
    store, stop, seen = GitStore(root), Stop(), []
    watch = store.watch("s1", store.last_seq("s1"), stop=stop)

    def follow() -> None:
        for batch in watch:
            now = time.monotonic_ns()
            seen.extend((row.seq, now) for row in batch)

    thread = threading.Thread(target=follow)
    thread.start()
    say("ready")
    sys.stdin.read()
    stop.set()
    thread.join()
    for seq, now in seen:
        say(seq, now)


def pipe(root: str) -> None:
    say("ready")
    seen = []
    while sys.stdin.buffer.raw.read(1):
        seen.append(time.monotonic_ns())
    for number, now in enumerate(seen):
        say(number, now)


def idle(root: str) -> None:
    store, stop = GitStore(root), Stop()
    watches = [store.watch(session_id, stop=stop) for session_id in store.sessions()]
    threads = [threading.Thread(target=list, args=(watch,)) for watch in watches]
    for thread in threads:
        thread.start()
    say("ready")
    before = sys.stdin.buffer.raw.read(1) and time.process_time()
    sys.stdin.buffer.raw.read(1)
    say(time.process_time() - before)
    stop.set()
    for thread in threads:
        thread.join()


def rows(root: str) -> None:
    store = GitStore(root)
    last = store.last_seq("s1")

    def read() -> None:
        for _ in store.read("s1"):
            pass

    def watched() -> None:
        for batch in store.watch("s1"):
            if batch[-1].seq == last:
                return

    for _ in range(6):
        times = []
        for work in (read, watched):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        say(*times)


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
