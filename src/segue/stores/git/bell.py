"""What wakes those who wait for a session's rows."""

from __future__ import annotations

import threading


class Bell:
    """Thread-safe. It only says that looking may be worth it: the rows are where they are."""

    def __init__(self) -> None:
        self.rings = 0
        self._changed = threading.Condition()

    def ring(self) -> None:
        with self._changed:
            self.rings += 1
            self._changed.notify_all()

    def wait(self, rings: int, seconds: float) -> bool:
        """Until it has rung more than `rings` times. False when that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self.rings != rings, seconds)
