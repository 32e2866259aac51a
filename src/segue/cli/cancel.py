"""`segue cancel`: end a turn, wherever it runs."""

from __future__ import annotations

import time

import click

from segue.cli import choosing, completion, exits
from segue.cli.visible import say
from segue.fold.turns import Turn, Turns
from segue.journal import Journal
from segue.session.cancelling import cancel as cancel_turn
from segue.session.db import default_db

LOOK = 0.05


@click.command()
@click.argument("session", metavar="SESSION", shell_complete=completion.session_ids)
@click.argument("turn", metavar="[TURN]", required=False, default="")
@click.option("--message", default="", metavar="TEXT", help="Why, for the record.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a running turn to stop.",
)
def cancel(session: str, turn: str, message: str, wait: float) -> int:
    """End a turn: the session's last one, or TURN.

    A running one, in whatever process, stops its steps; a tool that cannot be stopped is waited for. What a waiting one
    waits for is denied. A turn that is over stays as it is. Exit code 1 when it did not stop in time.
    """
    journal = default_db().journal(choosing.existing(default_db(), session))
    turn_id = cancel_turn(journal, turn, reason=message)
    ended, until = _turn(journal, turn_id), time.monotonic() + wait
    while ended is not None and ended.status == "running" and time.monotonic() < until:
        time.sleep(LOOK)
        ended = _turn(journal, turn_id)
    status = "cancelled" if ended is None else ended.status
    if status == "running":
        say(f"segue: turn {turn_id} was asked to stop, and still runs")
        return exits.FAILED
    say(f"turn {turn_id}: {status}")
    return exits.DONE


def _turn(journal: Journal, turn_id: str) -> Turn | None:
    return journal.view(Turns).get(turn_id)
