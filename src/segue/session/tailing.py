"""What others write into the session of a running turn: one thread of the process looks, while turns run."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from segue.errors import SegueError
from segue.threads import background_thread

if TYPE_CHECKING:
    from segue.session.turn import Turn

EVERY = 0.1
"""Seconds between two looks."""


class Tails:
    """The running turns of this process, each with the row up to which was looked. Thread-safe."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """No turn, no thread: a forked child runs none of its parent's turns."""
        self._turns: dict[Turn, int] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, turn: Turn) -> None:
        """It has just taken the lease: what was written before is none of its concern."""
        with self._changed:
            self._turns[turn] = turn.journal.last_seq
            if self._thread is None:
                self._thread = background_thread(self._look_again, "segue-tails")
                self._thread.start()
            self._changed.notify()

    def remove(self, turn: Turn) -> None:
        with self._changed:
            self._turns.pop(turn, None)

    def look(self) -> None:
        """Tell the turns what was asked of them since the last look."""
        with self._changed:
            running = list(self._turns.items())
        for turn, seen in running:
            with contextlib.suppress(SegueError):
                turn.meter.look()
            with contextlib.suppress(SegueError):  # its own next append meets the same, and says so
                last = turn.journal.last_seq
                if last > seen:
                    for row in turn.journal.read(seen):
                        last = row.seq
                        if row.type == "CANCEL_REQUESTED" and row.payload.get("turn_id", "") in (
                            "",
                            turn.turn_id,
                        ):
                            turn.cancel(str(row.payload.get("reason", "")))
                    with self._changed:
                        if turn in self._turns:
                            self._turns[turn] = last

    def _look_again(self) -> None:
        while True:
            with self._changed:
                while not self._turns:
                    self._changed.wait()
                self._changed.wait(EVERY)
            self.look()


tails = Tails()
os.register_at_fork(after_in_child=tails.start_anew)
