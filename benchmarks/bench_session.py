"""The session context, and an agentic call."""

from __future__ import annotations

import contextvars
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import Row, medians, scratch

from segue.agents.function import agentic_function
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.stores.git import GitStore

LOOPS = 200
VARIABLES = [contextvars.ContextVar[object](name, default=None) for name in "abcd"]


def run(quick: bool) -> list[Row]:
    rounds = 5 if quick else 15
    return list(_in_process(rounds, quick))


def _in_process(rounds: int, quick: bool) -> Iterator[Row]:
    with scratch() as folder:
        db = SessionDB(GitStore(folder))
        yield _enter_and_leave(db, rounds)
        yield from _agentic_calls(db, folder, rounds, 2_000 if quick else 100_000)
        db.close()


@contextmanager
def four_variables() -> Iterator[None]:
    tokens = [variable.set(1) for variable in VARIABLES]
    try:
        yield
    finally:
        for variable, token in zip(VARIABLES, tokens, strict=True):
            variable.reset(token)


def _enter_and_leave(db: SessionDB, rounds: int) -> Row:
    db.create_session("known")

    def ours() -> None:
        for _ in range(LOOPS):
            with session_context("known", db=db):
                pass

    def bare() -> None:
        for _ in range(LOOPS):
            with four_variables():
                pass

    mine, baseline = medians(ours, bare, rounds)
    detail = (
        f"{mine / LOOPS * 1e6:.1f} us over {baseline / LOOPS * 1e6:.2f} us for four ContextVars set and reset"
    )
    return Row("context: enter and leave", mine / baseline, 30, detail)


@agentic_function
def no_op(index: int) -> int:
    """Do nothing."""
    return index


def _agentic_calls(db: SessionDB, folder: Path, rounds: int, many: int) -> Iterator[Row]:
    """Nested no-op calls, each one append, beside a write and fdatasync of as many bytes for each."""
    with session_context("calls", db=db), around.begin(around.signature.bind((0,), {}), False):
        first, raw = medians(lambda: _calls(100), lambda: _raw(folder, 100), rounds)
        yield Row(
            "agentic call: beyond its fdatasync",
            (first - raw) / 100 * 1e6,
            150,
            f"microseconds, {first / 100 * 1e6:.0f} a call over {raw / 100 * 1e6:.0f} for 700 bytes written raw",
        )
        early = _processor_seconds(200)
        _calls(many)
        late = _processor_seconds(200)
        detail = f"processor time a call: {late / 200 * 1e6:.0f} us over {early / 200 * 1e6:.0f} us"
        yield Row(f"agentic call: 100 -> {many:,} nodes", late / early, 1.2, detail)


def _processor_seconds(calls: int) -> float:
    """Of all threads, the least of five tries: a shared disk's syncs do not count."""
    tries = []
    for _ in range(5):
        start = time.process_time()
        _calls(calls)
        tries.append(time.process_time() - start)
    return min(tries)


@agentic_function
def around(index: int) -> int:
    """Hold the others."""
    return index


def _calls(count: int) -> None:
    for index in range(count):
        no_op(index)


def _raw(folder: Path, count: int) -> None:
    descriptor = os.open(os.path.join(folder, "raw"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(count):
        os.write(descriptor, b"x" * 700)
        os.fdatasync(descriptor)
    os.close(descriptor)
