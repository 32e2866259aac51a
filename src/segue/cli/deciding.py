"""What waits for a person, in all sessions, and the commands that decide it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from segue.cli import choosing, completion, hints
from segue.cli.terminal import print_json, show
from segue.cli.visible import say, shortened, visible
from segue.errors import InvalidEvent, NotWaiting, StorageError, UsageError
from segue.events.codec import decode_json, encode_json
from segue.fold.turns import Turns
from segue.fold.waits import Wait
from segue.handlers.drive import is_handled
from segue.journal import Journal
from segue.session import decisions
from segue.session.db import SessionDB, default_db

Command = Callable[..., Any]
_SESSION = click.argument("session", metavar="SESSION", shell_complete=completion.session_ids)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def approvals(as_json: bool) -> None:
    """List everything that waits for somebody, in all sessions.

    Approvals, questions, and calls that were interrupted and whose outcome nobody knows.
    """
    db = default_db()
    found = [(info.session_id, wait) for info in db.list_sessions() for wait in _waits(db, info.session_id)]
    if as_json:
        print_json([_fields(session_id, wait) for session_id, wait in found])
    elif not found:
        say("nothing waits for anybody")
    else:
        show(_table(found))
        session_id, wait = found[0]
        say(hints.waiting(session_id, wait))


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--edit", metavar="JSON", help="Run it with these arguments (a JSON object) instead.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: your login name]")
def approve(session: str, call: str | None, edit: str | None, by: str | None) -> None:
    """Let one call run that waits for an approval.

    It runs exactly as it is shown, once. CALL may be left out when only one waits.
    """
    journal, wait = _one(session, call, "approval")
    arguments = None if edit is None else _json(edit, "--edit")
    decisions.approve(journal, wait.id, arguments=arguments, approver=by or _login())
    _said(journal, f"approved: {_called(wait)}")


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--message", default="", metavar="TEXT", help="Words to the model.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: your login name]")
def deny(session: str, call: str | None, message: str, by: str | None) -> None:
    """Refuse one call that waits for an approval.

    It never runs, and the model is told so. CALL may be left out when only one waits.
    """
    journal, wait = _one(session, call, "approval")
    decisions.deny(journal, wait.id, reason=message, approver=by or _login())
    _said(journal, f"denied: {_called(wait)}")


@click.command()
@_SESSION
@click.argument("question", metavar="QUESTION")
@click.argument("answer", metavar="TEXT")
@click.option("--json", "as_json", is_flag=True, help="TEXT is a JSON value.")
@click.option("--by", metavar="NAME", help="Who answers.  [default: your login name]")
def answer(session: str, question: str, answer: str, as_json: bool, by: str | None) -> None:
    """Answer a question that a turn waits for.

    QUESTION is its id, or `-` when only one is open.
    """
    journal, wait = _one(session, None if question == "-" else question, "question")
    value = _json(answer, "TEXT") if as_json else answer
    decisions.answer(journal, wait.id, value, by=by or _login())
    _said(journal, f"answered: {wait.name}")


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False)
@click.option("--retry", is_flag=True, help="Do it again.")
@click.option("--skip", is_flag=True, help="Leave it; the model is told that nobody knows.")
@click.option("--result", metavar="JSON", help="It happened, and this was its result.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: your login name]")
def resolve(
    session: str, call: str | None, retry: bool, skip: bool, result: str | None, by: str | None
) -> None:
    """Say what became of a call whose outcome nobody knows.

    It was started, and its process ended before its result was recorded.
    """
    if retry + skip + (result is not None) != 1:
        raise UsageError("say one of --retry, --skip, --result JSON")
    journal, wait = _one(session, call, "unknown_outcome")
    action: Any = "retry" if retry else "skip" if skip else "result"
    value = None if result is None else _json(result, "--result")
    decisions.resolve(journal, wait.id, action, result=value, by=by or _login())
    _said(journal, f"resolved ({action}): {_called(wait)}")


def _waits(db: SessionDB, session_id: str) -> list[Wait]:
    """One session that cannot be read hides no other."""
    try:
        return decisions.open_waits(db.journal(session_id))
    except StorageError:
        return []


def _one(session: str, call: str | None, kind: str) -> tuple[Journal, Wait]:
    db = default_db()
    journal = db.journal(choosing.existing(db, session))
    waits = [wait for wait in decisions.open_waits(journal) if wait.kind == kind]
    if call is not None:
        named = [wait for wait in waits if wait.id == call]
        # one that is decided already is told apart from one that never was by the decision itself
        return journal, named[0] if named else Wait(kind=kind, id=call)
    if len(waits) == 1:
        return journal, waits[0]
    if not waits:
        raise NotWaiting(f"nothing of that kind waits in session {journal.session_id}")
    listed = "\n".join(f"  {wait.id}  {_called(wait)}" for wait in waits)
    raise UsageError(f"{len(waits)} wait in session {journal.session_id}; say which:\n{listed}")


def _said(journal: Journal, done: str) -> None:
    say(done)
    left = decisions.open_waits(journal)
    if left:
        say(f"{len(left)} more to decide: {hints.command('approvals')}")
    else:
        last = journal.view(Turns).last
        target = "MODULE:HANDLER" if last is not None and is_handled(last) else ""
        say(f"go on with: {hints.going_on(journal.session_id, target)}")


def _called(wait: Wait) -> str:
    return wait.name if wait.kind == "question" else f"{wait.name}({encode_json(wait.arguments).decode()})"


def _fields(session_id: str, wait: Wait) -> dict[str, Any]:
    named = ("kind", "id", "name", "arguments", "options", "called_by", "turn_id", "seq")
    return {"session_id": session_id, **{name: getattr(wait, name) for name in named}}


def _table(found: list[tuple[str, Wait]]) -> Table:
    table = Table("session", "kind", "id", "what", box=None, pad_edge=False)
    for session_id, wait in found:
        cells = (session_id, wait.kind.replace("_", " "), wait.id, shortened(_called(wait), 80))
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def _json(text: str, place: str) -> Any:
    try:
        return decode_json(text)
    except InvalidEvent as error:
        raise UsageError(f"{place} is not JSON: {error}") from error


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
