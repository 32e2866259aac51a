"""A bar for what may take long: shown on a terminal only, and only once it has taken a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

PATIENCE = 1.0
"""Seconds."""


@contextmanager
def bar(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """Gives what to call with how many of how many are done; None when nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    begun = time.monotonic()
    with ExitStack() as stack:
        shown: list[Any] = []

        def show(done: int, total: int) -> None:
            if not shown and time.monotonic() - begun >= PATIENCE:
                made = click.progressbar(length=total, label=doing, file=sys.stderr, show_pos=True)
                shown.append(stack.enter_context(made))
            if shown:
                shown[0].update(done - shown[0].pos)

        yield show
