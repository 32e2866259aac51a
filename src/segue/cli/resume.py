"""`segue resume`: go on with a turn that was suspended or interrupted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from msgspec import structs

from segue.agents.resume import imported, recorded_arguments, root_call, unfinished_turn
from segue.cli import asking, choosing, completion, exits, hints, limits, running, target
from segue.cli.main import Options
from segue.cli.output import FORMATS, answers_only
from segue.errors import NoModel, UsageError
from segue.fold.graph import CallGraph
from segue.fold.turns import Turn
from segue.handlers.app import as_app
from segue.handlers.drive import is_handled
from segue.handlers.running import run_handler
from segue.journal import Journal
from segue.session.awaited import awaited
from segue.session.db import SessionDB, default_db
from segue.settings import load_settings


@click.command()
@click.argument("session", metavar="SESSION", shell_complete=completion.session_ids)
@click.argument("target", metavar="[MODULE:FUNCTION]", required=False)
@click.option(
    "--model",
    metavar="DIALECT:MODEL",
    help="For the model calls still to come; by default the one that was asked before.",
)
@click.option("--output-format", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Interrupt it then."
)
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="Wait for a busy session."
)
@click.option("--max", multiple=True, metavar="LIMIT=VALUE", help=limits.HELP)
@click.option("--source", default="cli", show_default=True, help="What the record says the entry point is.")
@click.pass_obj
def resume(options: Options, /, session: str, target: str | None, **words: Any) -> int:
    """Go on with a turn that was suspended or interrupted.

    It is the last one of SESSION, which may be the beginning of an id. The function that began the turn is called
    again; what it had finished is answered from the record, so nothing is done or paid twice. MODULE:FUNCTION says
    where it is now, if it moved; for a turn of a handler or an app it has to be said.
    """
    db = default_db()
    session_id = choosing.existing(db, session)
    with running.own_errors(options.verbose) as failed, answers_only():
        return _resume(options, db, session_id, target, words)
    return failed.code


def _resume(
    options: Options, db: SessionDB, session_id: str, place: str | None, words: dict[str, Any]
) -> int:
    journal = db.journal(session_id)
    turn = unfinished_turn(journal, words["source"])
    if awaited(journal, turn):
        if not (words["output_format"] == "text" and asking.is_attached()):
            running.say_waits(journal, turn.turn_id)
            return exits.SUSPENDED
        if (code := running.ask(journal, turn.turn_id, place or "MODULE:HANDLER")) != exits.DONE:
            return code
    words["model"] = words["model"] or _model(journal, turn)
    words["budget"] = limits.budget(words.pop("max"))
    opening, call = next_attempt(running.Opening(session_id=session_id, **words), place)
    return running.run(
        opening,
        call,
        lambda session_id: hints.continuation(opening.target, words["model"], (), "", session_id),
        again=lambda opening: next_attempt(opening, place),
        verbose=options.verbose,
    )


def next_attempt(opening: running.Opening, place: str | None) -> tuple[running.Opening, Callable[[], Any]]:
    """How the session's last turn goes on: its opening, and what is called. Raises `NotResumable`."""
    assert opening.session_id is not None
    journal = default_db().journal(opening.session_id)
    turn = unfinished_turn(journal, opening.source)
    name, call = (_handler_call if is_handled(turn) else _function_call)(journal, turn, place)
    return structs.replace(opening, turn_id=turn.turn_id, agent_id=turn.agent_id, target=name), call


def _model(journal: Journal, turn: Turn) -> str | None:
    """The model that the turn has been asking, None where it asked none. A script would begin anew: it has to be named.

    Raises `NoModel` when it is not, before the turn is opened.
    """
    with journal.viewing(CallGraph) as graph:
        asked = [
            node for node in graph.nodes.values() if node.kind == "model" and node.turn_id == turn.turn_id
        ]
    if not asked:
        return None
    if not asked[-1].name.startswith("scripted:"):
        return asked[-1].name
    if not load_settings().model:
        raise NoModel(
            f"the turn asked {asked[-1].name}, which would begin anew: say which model goes on, --model"
        )
    return None


def _function_call(journal: Journal, turn: Turn, place: str | None) -> tuple[str, Callable[[], Any]]:
    """What began the turn, and the call that goes on with it."""
    root = root_call(journal, turn)
    function = imported(root.name, find=target.load_target) if place is None else target.load_target(place)
    arguments = recorded_arguments(function, root)
    return root.name, lambda: function(**arguments)


def _handler_call(journal: Journal, turn: Turn, place: str | None) -> tuple[str, Callable[[], Any]]:
    if place is None:
        again = hints.going_on(journal.session_id, "MODULE:HANDLER")
        raise UsageError(f"the turn was begun by the handler of {turn.agent_id}; say where it is: {again}")
    app = as_app(target.load_target(place))
    path = app.route(turn.agent_id)
    return place, lambda: run_handler(app, path)
