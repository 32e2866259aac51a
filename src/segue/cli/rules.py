"""`segue rules`: what is granted without asking, and taking that back."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from rich.table import Table
from rich.text import Text

from segue.cli import choosing, completion
from segue.cli.deciding import login
from segue.cli.terminal import print_json, show
from segue.cli.visible import exact, say, visible
from segue.errors import StorageError, UsageError
from segue.events.codec import encode_json
from segue.fold.rules import Rule
from segue.session import decisions
from segue.session.db import SessionDB, default_db


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=completion.session_ids)
@click.option(
    "--withdraw", metavar="RULE", shell_complete=completion.rule_ids, help="Take this rule of SESSION back."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.option("--by", metavar="NAME", help="Who withdraws it.  [default: your login name]")
def rules(session: str | None, withdraw: str | None, as_json: bool, by: str | None) -> None:
    """Show which calls are granted without asking.

    In all sessions or in one. `segue approve --always` sets such a rule. It is for one session and for the tool as it
    was declared then.
    """
    db = default_db()
    if withdraw is not None:
        return _withdraw(db, session, withdraw, by or login())
    among = (
        [info.session_id for info in db.list_sessions()]
        if session is None
        else [choosing.existing(db, session)]
    )
    found = [(session_id, rule) for session_id in among for rule in _rules(db, session_id)]
    if as_json:
        print_json([_fields(session_id, rule) for session_id, rule in found])
    elif found:
        show(_table(found))
    else:
        say("there are no rules")


def _withdraw(db: SessionDB, session: str | None, rule_id: str, by: str) -> None:
    if session is None:
        raise UsageError("say of which session: segue rules SESSION --withdraw RULE")
    decisions.withdraw(db.journal(choosing.existing(db, session)), rule_id, by=by)
    say(f"withdrawn: {rule_id}")


def _rules(db: SessionDB, session_id: str) -> list[Rule]:
    """One session that cannot be read hides no other."""
    try:
        return decisions.rules(db.journal(session_id))
    except StorageError:
        return []


def _fields(session_id: str, rule: Rule) -> dict[str, Any]:
    return {"session_id": session_id, **msgspec.structs.asdict(rule)}


def _table(found: list[tuple[str, Rule]]) -> Table:
    table = Table("session", "rule", "grants", "set by", "set at", box=None, pad_edge=False)
    for session_id, rule in found:
        arguments = "any arguments" if rule.arguments is None else encode_json(rule.arguments).decode()
        cells = (
            visible(session_id),
            visible(rule.id),
            exact(f"{rule.tool}({arguments})"),
            exact(rule.by),
            rule.set_at,
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table
