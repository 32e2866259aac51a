"""`segue sessions`: what is in the journals, for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from segue.cli import choosing, completion, drawing, listing, verifying
from segue.cli.terminal import print_json, show
from segue.cli.visible import shortened, visible
from segue.events.codec import encode_json
from segue.events.json_values import to_json
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph
from segue.fold.turns import Turn
from segue.session.db import SessionDB, default_db
from segue.session.recovery import close_dead_turn

NODE_FIELDS = (
    *("id", "kind", "name", "called_by", "predecessor", "status", "attempt", "arguments"),
    *("result", "error", "usage", "turn_id", "started_at", "ended_at"),
)

Command = Callable[..., Any]


def _one_session(command: Command) -> Command:
    """The argument and option that commands about one session share."""
    argument = click.argument(
        "session", metavar="[ID]", required=False, shell_complete=completion.session_ids
    )
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return argument(option(command))


@click.group()
def sessions() -> None:
    """Look at sessions, check and repair them."""


for command in (listing.list_, listing.search, listing.reindex, verifying.verify, verifying.repair):
    sessions.add_command(command)


@sessions.command("show")
@_one_session
def show_(session: str | None, as_json: bool) -> None:
    """Show a session's messages and turns.

    ID may be the beginning of one; without it the latest is shown.
    """
    db, session_id = _find(session)
    turns, messages = db.turns(session_id).all, db.journal(session_id).view(Conversation).messages()
    if as_json:
        shown = [
            _fields(turn, ("turn_id", "status", "source", "attempt", "started_at", "ended_at"))
            for turn in turns
        ]
        print_json({"session_id": session_id, "turns": shown, "messages": messages})
        return
    show(Text(f"session: {session_id}", style="bold"))
    for message in messages:
        show(_message(message), wrap=False)
    for turn in turns:
        show(_turn(turn))


@sessions.command("graph")
@_one_session
def graph_(session: str | None, as_json: bool) -> None:
    """Draw a session's call graph.

    ID may be the beginning of one; without it the latest is drawn.
    """
    db, session_id = _find(session)
    graph = db.journal(session_id).view(CallGraph)
    if as_json:
        nodes = [_fields(node, NODE_FIELDS) for node in graph.nodes.values()]
        print_json({"session_id": session_id, "nodes": nodes})
    else:
        show(drawing.tree(graph, session_id))


def _find(session: str | None) -> tuple[SessionDB, str]:
    db = default_db()
    session_id = choosing.latest(db) if session is None else choosing.existing(db, session)
    close_dead_turn(db.journal(session_id), "cli")
    return db, session_id


def _fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: to_json(getattr(value, name)) for name in names}


def _message(message: dict[str, Any]) -> Text:
    content = message.get("content")
    text = content if isinstance(content, str) else encode_json(to_json(content)).decode()
    shown = Text.assemble("\n", (f"{message.get('role')}:", "bold"), "\n", visible(text, lines=True))
    for call in message.get("tool_calls") or []:
        function = call["function"]
        shown.append(f"\n-> {visible(function['name'])} {shortened(function['arguments'], 200)}")
    return shown


def _turn(turn: Turn) -> Text:
    words = [
        f"\n{turn.turn_id}: {turn.status}",
        f"from {turn.source}" if turn.source else "",
        turn.started_at[:19],
    ]
    return Text(visible("  ".join(word for word in words if word), lines=True), style="dim")
