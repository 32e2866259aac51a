"""`segue sessions verify` and `repair`: is everything there, and what can be done about what is not."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from segue.cli import choosing, completion, exits
from segue.cli.terminal import print_json
from segue.cli.visible import visible
from segue.errors import StorageError, UsageError
from segue.session.db import default_db
from segue.stores.git import GitStore
from segue.stores.git.problems import Problem, damage_in

SLOW, MANY = 50_000_000, 200
"""Bytes, or sessions, from which a progress bar is shown."""


@click.command("verify")
@click.argument("session_ids", metavar="[ID]...", nargs=-1, shell_complete=completion.session_ids)
@click.option("--all", "everything", is_flag=True, help="Every session.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, an object for each session.")
def verify(session_ids: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Check sessions: rows, checksums, blobs, commits. Changes nothing.

    ID may be the beginning of one. Exit code 0 when everything is whole, 1 when something is damaged: then
    `segue sessions repair ID` says and does what can be done.
    """
    store = _git_store()
    if everything == bool(session_ids):
        raise UsageError("name the sessions to check, or give --all")
    chosen = store.sessions() if everything else [_existing(session_id) for session_id in session_ids]
    with _progress(store, chosen) as advance:
        found = [_verified(store, session_id, advance) for session_id in chosen]
    if everything:
        found += [_unknown(str(path)) for path in store.unknown_folders()]
    if as_json:
        print_json(found)
    else:
        for checked in found:
            _show(checked)
    return exits.DONE if all(checked["whole"] for checked in found) else exits.FAILED


@click.command("repair")
@click.argument("session_id", metavar="ID", shell_complete=completion.session_ids)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def repair(session_id: str, as_json: bool) -> int:
    """Repair a session, and keep a copy of everything that is changed.

    Damaged and missing rows come back from the session's commits. A row that nobody has any more becomes a ROW_LOST
    row, so that nobody takes a shortened session for a whole one. Nothing happens to a session that is whole.
    """
    store = _git_store()
    session_id = _existing(session_id)
    with _progress(store, [session_id]) as advance:
        report = store.repair(session_id, advance)
    done = _result(session_id, report.problems) | {"backup": report.backup}
    if report.backup:
        default_db().reindex_session(session_id)
    if as_json:
        print_json(done)
        return exits.DONE
    _show(done)
    if report.backup:
        click.echo(f"repaired; what was changed is kept in {visible(report.backup)}")
    return exits.DONE


def _git_store() -> GitStore:
    store = default_db().store
    if not isinstance(store, GitStore):
        raise UsageError("only sessions of the git store can be checked and repaired")
    return store


def _existing(prefix: str) -> str:
    return choosing.existing(default_db(), prefix)


def _verified(store: GitStore, session_id: str, advance: Callable[[int], None]) -> dict[str, Any]:
    """One session that cannot even be read hides no other."""
    try:
        return _result(session_id, store.verify(session_id, advance))
    except StorageError as error:
        return {"session_id": session_id, "whole": False, "problems": [], "error": str(error)}


def _result(session_id: str, problems: list[Problem]) -> dict[str, Any]:
    shown = [msgspec.to_builtins(problem) for problem in problems]
    return {"session_id": session_id, "whole": not damage_in(problems), "problems": shown}


def _unknown(path: str) -> dict[str, Any]:
    error = "a journal in a folder whose name is no session's, so no listing shows it: rename it to the id in meta.json"
    return {"session_id": path, "whole": False, "problems": [], "error": error}


def _show(checked: dict[str, Any]) -> None:
    name = visible(checked["session_id"])
    if "error" in checked:
        click.echo(f"{name}: {visible(checked['error'])}")
        return
    problems = [msgspec.convert(problem, Problem) for problem in checked["problems"]]
    if not problems:
        click.echo(f"{name}: whole")
        return
    damaged, lost = len(damage_in(problems)), sum(problem.lost for problem in problems)
    words = f"{damaged} problem{'s' * (damaged != 1)}" if damaged else "whole"
    click.echo(f"{name}: {words}{', something is lost' if lost else ''}")
    for problem in problems:
        click.echo(f"  {'note: ' if problem.note else ''}{visible(problem.describe())}")
        click.echo(f"    {visible(problem.repair)}")


@contextlib.contextmanager
def _progress(store: GitStore, session_ids: list[str]) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal when there is much to read: in one session, or in many."""
    few = len(session_ids) < MANY
    if not sys.stderr.isatty() or (few and sum(map(store.size, session_ids)) < SLOW):
        yield lambda size: None
        return
    columns = (
        TextColumn("checking"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking", total=sum(map(store.size, session_ids)))
        yield lambda size: bar.advance(task, size)
