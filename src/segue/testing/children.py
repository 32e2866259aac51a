"""A `segue.testing.store_process` as the conformance suite sees it: what it said so far, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

SECONDS = 300.0
"""A child that has not said or done by then what it should hangs."""


class Child:
    """Use it as a context manager: it is killed at the end. Its output is read as it comes, so it never blocks."""

    def __init__(self, opener: str, location: str, command: str, *arguments: str) -> None:
        program = [sys.executable, "-m", "segue.testing.store_process", opener, location, command, *arguments]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._said: list[str] = []
        self._silent = False
        """Whether nothing more can come."""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def said(self) -> list[str]:
        """The whole lines so far: a killed process may leave half of one."""
        with self._changed:
            return [line[:-1] for line in self._said if line.endswith("\n")]

    def until(self, count: int) -> list[str]:
        """Wait for that many lines, or its end."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self._said) >= count or self._silent, SECONDS)
        assert done, f"only {len(self.said())} of {count} lines came"
        return self.said()

    def go(self) -> None:
        """Let it begin: it has said `ready`."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> list[str]:
        """All it said, once it has ended by itself, without an error."""
        code = self._process.wait(SECONDS)
        assert code == 0, f"it ended with {code}"
        self._reader.join(SECONDS)
        return self.said()

    def kill(self) -> list[str]:
        """All it said before it was killed. One that had ended with an error before that is a failure."""
        code = self._process.poll()
        self._process.kill()
        self._process.wait()
        self._reader.join(SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        assert code in (None, 0, -signal.SIGKILL), f"it had ended with {code} before it was killed"
        return self.said()

    def _read(self) -> None:
        stdout: Any = self._process.stdout
        for line in stdout:
            with self._changed:
                self._said.append(line)
                self._changed.notify_all()
        with self._changed:
            self._silent = True
            self._changed.notify_all()


def acknowledged(lines: list[str]) -> list[tuple[int, str]]:
    """Seq and id of each row that a child said was written."""
    words = (line.split() for line in lines if line != "ready")
    return [(int(seq), row_id) for seq, row_id in words]
