"""What ends a run from outside: SIGTERM and the time limit. Both interrupt the turn, so that it can be gone on with."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from segue.cli.exits import Terminated, TimeLimit


@contextlib.contextmanager
def stopped_by_signals(seconds: float | None) -> Iterator[None]:
    """Inside, SIGTERM raises `Terminated`, and `TimeLimit` comes after `seconds`. A second SIGTERM kills at once."""
    before = {number: signal.signal(number, _raise) for number in (signal.SIGTERM, signal.SIGALRM)}
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
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated
