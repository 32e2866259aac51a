"""Running a program under strace: killed at a chosen system call, or with its calls recorded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60.0
"""No run of the harness takes that long."""
_LINE = re.compile(r"(\d+) +(.*)\n?")
_CALL = re.compile(r"(\w+)\(")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")


@dataclass(frozen=True)
class Run:
    output: bytes
    """Standard output, up to the kill."""
    code: int
    """Exit code; -9 when killed."""


@dataclass(frozen=True)
class Call:
    """One system call of the log."""

    thread: int
    name: str
    text: str
    """Arguments and result, as strace prints them."""
    begun: int
    """Line of the log where it began."""
    ended: int
    """Line where it returned; 0 when it never did, because the process was killed."""

    @property
    def succeeded(self) -> bool:
        return bool(self.ended) and not re.search(r"\)\s+= (-1 [A-Z]|\?)", self.text)


def missing() -> str:
    """Why nothing can be traced here; empty when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed (apt-get install strace)"
    tried = subprocess.run(
        ["strace", "-f", "-o", os.devnull, "-e", "trace=none", "true"], capture_output=True, text=True
    )
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.strip()}"


def run_traced(
    command: Sequence[str],
    text: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    options: Sequence[str],
) -> Run:
    """Run to the end, or to the kill that the options of strace ask for.

    The program gets `text` as its input; what it prints is beside the log, in `.out` and `.err`. Where that is
    allowed, strace joins it when it waits for its input: all of its work is traced then, and its start, which is
    nine tenths of its calls, costs nothing.
    """
    strace = ["strace", "-f", "-y", "-o", str(log), *options]
    late = _may_attach()
    with open(log.with_suffix(".err"), "wb") as errors, open(log.with_suffix(".out"), "wb") as output:
        process = subprocess.Popen(
            command if late else [*strace, *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
        )
        try:
            tracer = _attach(process, strace) if late else None
            process.communicate(text.encode(), SECONDS)
            if tracer is not None:
                tracer.communicate(timeout=SECONDS)
        finally:
            process.kill()
    code = process.returncode
    return Run(log.with_suffix(".out").read_bytes(), code if late else (-9 if code == 137 else code))


def calls(log: Path) -> list[Call]:
    """The calls of a log, in the order in which they returned; those that never did are last."""
    found: list[Call] = []
    open_calls: dict[int, tuple[str, str, int]] = {}
    with open(log, encoding="latin-1", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            matched = _LINE.match(line)
            if matched is None:
                continue
            thread, text = int(matched[1]), matched[2]
            if resumed := _RESUMED.match(text):
                name, begin, begun = open_calls.pop(thread, (resumed[1], "", number))
                found.append(Call(thread, name, begin + resumed[2], begun, number))
            elif called := _CALL.match(text):
                name, rest = called[1], text[called.end() :]
                if rest.endswith("<unfinished ...>"):
                    open_calls[thread] = (name, rest.removesuffix("<unfinished ...>").rstrip(), number)
                elif rest.endswith("= ?"):
                    open_calls[thread] = (name, rest, number)
                else:
                    found.append(Call(thread, name, rest, number, number))
    unended = [Call(thread, name, rest, begun, 0) for thread, (name, rest, begun) in open_calls.items()]
    return found + sorted(unended, key=lambda call: call.begun)


def _may_attach() -> bool:
    """Whether a process may trace one that is not its child."""
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = "0"
    return scope == "0" or (scope == "1" and os.geteuid() == 0)


def _attach(process: subprocess.Popen[bytes], strace: Sequence[str]) -> subprocess.Popen[bytes]:
    deadline = time.monotonic() + SECONDS
    while not _reads_input(process.pid):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the traced program did not wait for its input (exit code {process.poll()})")
        time.sleep(0.002)
    tracer = subprocess.Popen([*strace, "-p", str(process.pid)], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if b"attached" not in said:
        raise RuntimeError(f"strace did not attach: {said.decode()}")
    return tracer


def _reads_input(pid: int) -> bool:
    """Whether its main thread waits in a call on descriptor 0."""
    try:
        words = Path(f"/proc/{pid}/syscall").read_text().split()
    except OSError:
        return False
    return len(words) > 1 and words[1] == "0x0"
