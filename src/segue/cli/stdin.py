"""What was piped into the program."""

from __future__ import annotations

import os
import select
import stat
import sys

import click

from segue.errors import UsageError

PATIENCE = 3.0
"""Seconds for a pipe to say something. Services and other programs often leave an idle one open for ever."""


def piped_text(*, insist: bool = False) -> str:
    """All of standard input as text, without its last line end; empty for a terminal.

    A pipe that says nothing for 3 seconds is left alone, with a note, unless `insist`: then it is waited for.
    Raises `UsageError` when it is not UTF-8.
    """
    if sys.stdin is None or sys.stdin.closed or (sys.stdin.isatty() and not insist):
        return ""
    if not insist and not _speaks(sys.stdin.fileno()):
        click.echo(
            f"segue: nothing on standard input for {PATIENCE:g} s: going on without it"
            " (TEXT `-` waits for it, </dev/null says there is none)",
            err=True,
        )
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})") from error


def _speaks(descriptor: int) -> bool:
    """Whether there is something to read, or its end, soon. Files always are; pipes and sockets have to show it."""
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return True
    return bool(select.select([descriptor], [], [], PATIENCE)[0])
