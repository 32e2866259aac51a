"""Standard output: tables and texts for people, JSON for programs."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Console, RenderableType

from segue.events.codec import encode_json

PLAIN_WIDTH = 120
"""Columns when the output is no terminal."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # not SystemExit(1): the reader has what it wanted


def show(renderable: RenderableType, *, wrap: bool = True) -> None:
    """On standard output; as wide as the terminal, or as 120 columns. Without `wrap`, long lines stay as they are."""
    _console().print(renderable, soft_wrap=not wrap)


def width() -> int:
    """Columns of standard output."""
    return _console().width


def _console() -> Console:
    return _Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False)


def print_json(value: Any) -> None:
    click.echo(encode_json(value).decode())
