"""Threads of our own, beside the program's."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

_TO_THE_PROGRAM = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGQUIT}


def background_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """A daemon, not yet started, that takes no signal sent to the process.

    Python acts on a signal in the main thread only. Were it delivered to another, a main thread that is blocked in a
    system call would not be woken for it: a SIGTERM would do nothing until, say, a `sleep(60)` is over.
    """

    def work() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _TO_THE_PROGRAM)
        run()

    return threading.Thread(target=work, name=name, daemon=True)
