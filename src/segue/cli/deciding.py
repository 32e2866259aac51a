"""What waits for a person, in all sessions, and the commands that decide it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from segue.cli import choosing, completion, hints, waits
from segue.cli.terminal import print_json, show
from segue.cli.visible import say, visible
from segue.errors import InvalidEvent, NotWaiting, StorageError, UsageError
from segue.events.codec import decode_json
from segue.fold.turns import Turns
from segue.fold.waits import Wait
from segue.handlers.drive import is_handled
from segue.journal import Journal
from segue.session import decisions
from segue.session.db import SessionDB, default_db

Command = Callable[..., Any]
_SESSION = click.argument("session", metavar="SESSION", shell_complete=completion.session_ids)


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=completion.session_ids)
@click.option("--full", is_flag=True, help="Show everything of each, however long.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def approvals(session: str | None, full: bool, as_json: bool) -> None:
    """List everything that waits for somebody, in all sessions or in one.

    Approvals, questions, and calls that were interrupted and whose outcome nobody knows. Characters that would not
    show, or look like others, are written as escapes; --json gives the data as it is.
    """
    db = default_db()
    among = (
        [info.session_id for info in db.list_sessions()]
        if session is None
        else [choosing.existing(db, session)]
    )
    found = [(session_id, wait) for session_id in among for wait in _waits(db, session_id)]
    if as_json:
        print_json([_fields(session_id, wait) for session_id, wait in found])
    elif not found:
        say("nothing waits for anybody")
    elif full:
        show(Text("\n\n".join(_whole(session_id, wait) for session_id, wait in found)), wrap=False)
    else:
        show(_table(found))
        session_id, wait = found[0]
        say(hints.waiting(session_id, wait))


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False, shell_complete=completion.wait_ids)
@click.option("--edit", metavar="JSON", help="Run it with these arguments (a JSON object) instead.")
@click.option("--always", is_flag=True, help="Also grant later calls in the session that are equal to it.")
@click.option("--any-arguments", is_flag=True, help="With --always: calls of this tool with any arguments.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: your login name]")
def approve(
    session: str, call: str | None, edit: str | None, always: bool, any_arguments: bool, by: str | None
) -> None:
    """Let one call run that waits for an approval.

    It runs exactly as it is shown, once. CALL may be left out when only one waits. --always sets a rule, which
    `segue rules` shows and withdraws.
    """
    if any_arguments and not always:
        raise UsageError("--any-arguments goes with --always")
    journal, wait = _one(session, call, "approval")
    arguments = None if edit is None else _json(edit, "--edit")
    how: Any = "any" if any_arguments else "these" if always else ""
    also = decisions.approve(journal, wait.id, arguments=arguments, approver=by or login(), always=how)
    _said(
        journal,
        "\n".join([f"approved: {_called(wait)}", *(f"approved by the rule: {call}" for call in also)]),
    )


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False, shell_complete=completion.wait_ids)
@click.option("--message", default="", metavar="TEXT", help="Words to the model.")
@click.option("--by", metavar="NAME", help="Who decides.  [default: your login name]")
def deny(session: str, call: str | None, message: str, by: str | None) -> None:
    """Refuse one call that waits for an approval.

    It never runs, and the model is told so. CALL may be left out when only one waits.
    """
    journal, wait = _one(session, call, "approval")
    decisions.deny(journal, wait.id, reason=message, approver=by or login())
    _said(journal, f"denied: {_called(wait)}")


@click.command()
@_SESSION
@click.argument("words", metavar="[QUESTION] [TEXT]", nargs=-1)
@click.option("--json", "as_json", metavar="JSON", help="The answer as a JSON value, instead of TEXT.")
@click.option("--by", metavar="NAME", help="Who answers.  [default: your login name]")
def answer(session: str, words: tuple[str, ...], as_json: str | None, by: str | None) -> None:
    """Answer a question that a turn waits for.

    QUESTION is its id; it may be left out, or be `-`, when only one is open. The answer has to be one of the question's
    options, or fit its schema.
    """
    if len(words) + (as_json is not None) not in (1, 2):
        raise UsageError(
            "say the answer, as TEXT or with --json JSON, after the question's id if several are open"
        )
    named = words[0] if len(words) + (as_json is not None) == 2 else None
    journal, wait = _one(session, None if named == "-" else named, "question")
    if named is None and as_json is None and words[0] == wait.id:
        raise UsageError(f"{wait.id} is the question: say the answer after it")
    value = words[-1] if as_json is None else _json(as_json, "--json")
    decisions.answer(journal, wait.id, value, by=by or login())
    _said(journal, f"answered: {_called(wait)}")


@click.command()
@_SESSION
@click.argument("call", metavar="[CALL]", required=False, shell_complete=completion.wait_ids)
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
    decisions.resolve(journal, wait.id, action, result=value, by=by or login())
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
    found = [wait for wait in decisions.open_waits(journal) if wait.kind == kind]
    if call is not None:
        named = [wait for wait in found if wait.id == call]
        # one that is decided already is told apart from one that never was by the decision itself
        return journal, named[0] if named else Wait(kind=kind, id=call)
    if len(found) == 1:
        return journal, found[0]
    if not found:
        raise NotWaiting(f"nothing of that kind waits in session {journal.session_id}")
    listed = "\n".join(f"  {wait.id}  {_called(wait)}" for wait in found)
    raise UsageError(f"{len(found)} wait in session {journal.session_id}; say which:\n{listed}")


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
    return waits.what(wait)


def _whole(session_id: str, wait: Wait) -> str:
    return f"{session_id}  {wait.kind.replace('_', ' ')}  {visible(wait.id)}\n{waits.whole(wait)}"


def _fields(session_id: str, wait: Wait) -> dict[str, Any]:
    named = ("kind", "id", "name", "arguments", "options", "schema", "called_by", "turn_id", "seq")
    return {"session_id": session_id, **{name: getattr(wait, name) for name in named}}


def _table(found: list[tuple[str, Wait]]) -> Table:
    table = Table("session", "kind", "id", "what", box=None, pad_edge=False)
    for session_id, wait in found:
        cells = (session_id, wait.kind.replace("_", " "), wait.id)
        see = hints.command("approvals", session_id, "--full")
        table.add_row(*(Text(visible(cell)) for cell in cells), Text(waits.what(wait, most=400, see=see)))
    return table


def _json(text: str, place: str) -> Any:
    try:
        return decode_json(text)
    except InvalidEvent as error:
        raise UsageError(f"{place} is not JSON: {error}") from error


def login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
