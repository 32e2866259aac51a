"""Another process with a git store: `python holds.py <root> <session> <how>` has one of its locks, and tells so.

append   stops itself inside an append, between the write and the sync
commit   stops itself inside a commit
create   stops itself while it makes a session
fork     has the turn lease, and a forked child that lives on
spawn    has the turn lease, and a program started with all inheritable descriptors that lives on
pool     has the turn lease, and a forked multiprocessing worker that lives on
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from segue.stores.git import GitStore, locks, marks
from segue.testing.store_process import control_row


def stop_itself(*_: Any) -> None:
    signal.pthread_kill(
        threading.get_ident(), signal.SIGSTOP
    )  # here, not wherever another thread takes the signal


def append(store: GitStore, session_id: str) -> None:
    os.fdatasync = stop_itself
    store.append(session_id, [control_row()])
    print("appended", flush=True)


def commit(store: GitStore, session_id: str) -> None:
    with locks.commit_lock(store._session(session_id).paths):
        stop_itself()


def create(store: GitStore, session_id: str) -> None:
    marks.make = stop_itself
    store.create("new")


def live_on() -> None:
    """In a child, which is told apart by its number."""
    print(os.getpid(), flush=True)
    time.sleep(600)


def fork(store: GitStore, session_id: str) -> None:
    store.acquire(session_id, holder="the parent")
    if os.fork() == 0:
        live_on()
    signal.pause()


def spawn(store: GitStore, session_id: str) -> None:
    store.acquire(session_id, holder="the parent")
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    print(child.pid, flush=True)
    signal.pause()


def pool(store: GitStore, session_id: str) -> None:
    store.acquire(session_id, holder="the parent")
    multiprocessing.get_context("fork").Process(target=live_on).start()
    signal.pause()


if __name__ == "__main__":
    with_store = GitStore(sys.argv[1], commits=False)
    globals()[sys.argv[3]](with_store, sys.argv[2])
