"""Signals go to the program, not to the threads of its store."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from segue.stores.git import GitStore
from segue.testing.store_process import control_row

OF_A_STORE = {"segue-append", "segue-commit", "segue-watch"}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_no_thread_of_a_store_takes_a_signal_that_is_for_the_program(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        store.append("s1", [control_row()])
        store.commit("s1", "turn")
        assert store.drain_commits(60)
        assert len(list(next(store.watch("s1")))) == 1
        threads = {
            thread.name: blocked(thread)
            for thread in set(threading.enumerate()) - before
            if thread.name in OF_A_STORE
        }
    assert {"segue-append", "segue-commit"} <= set(threads)
    for name, signals in threads.items():
        assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM} <= signals, name


def blocked(thread: threading.Thread) -> set[int]:
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}
