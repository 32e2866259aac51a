"""What ends a run from outside: SIGTERM, a closed terminal, the time limit. All interrupt the turn, resumably."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from segue.cli.exits import Terminated, TimeLimit


@contextlib.contextmanager
def stopped_by_signals(seconds: float | None) -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP raise `Terminated`, a second one kills at once; `TimeLimit` comes after `seconds`."""
    before = {
        number: signal.signal(number, _raise) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    }
    if seconds is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGALRM:
        raise TimeLimit
    signal.signal(number, signal.SIG_DFL)
    raise Terminated
