"""One call as one turn: the session opened, the answer shown, and told on standard error how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec

from segue.cli import asking, exits, hints, outcome, output, stopping
from segue.cli.output import FORMATS, Output
from segue.cli.visible import say
from segue.errors import StorageError
from segue.fold.turns import Turns
from segue.handlers.drive import is_handled
from segue.journal import Journal
from segue.session.awaited import awaited
from segue.session.budget import Budget
from segue.session.context import SessionHandle, session_context
from segue.session.db import SessionDB, default_db
from segue.session.metering import UNITS
from segue.session.runtime import Runtime, create_runtime
from segue.tools.policy import load_policy


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How the turn is opened and shown."""

    session_id: str | None
    turn_id: str | None = None
    agent_id: str = "main"
    target: str = ""
    """Where a turn's handler or function is, as the command line said it."""
    model: str | None
    output_format: str
    source: str
    timeout: float | None
    wait: float
    budget: Budget | None = None


def run(
    opening: Opening,
    call: Callable[[], Any],
    continuation: Callable[[str], str],
    *,
    again: Callable[[Opening], tuple[Opening, Callable[[], Any]]],
    verbose: bool,
) -> int:
    """Make the call (what it gives may be awaitable) and show how it went; gives the exit code.

    Where the turn suspends and somebody sits at the terminal, they are asked, and the turn goes on: `again` gives what
    is to be called then. `continuation` says how to continue, given the session's id.
    """
    _check_policy()
    asks, known = opening.output_format == "text" and asking.is_attached(), ""
    with _runtime(opening.model) as runtime:
        while True:
            code, session = _attempt(
                opening, call, continuation, runtime, verbose=verbose, asks=asks, known=known
            )
            if code != exits.SUSPENDED or session is None or not asks:
                return code
            known = session.session_id
            code = ask(session.db.journal(known), session.turn_id, opening.target)
            if code != exits.DONE:
                return code
            opening, call = again(msgspec.structs.replace(opening, session_id=known))


def ask(journal: Journal, turn_id: str, target: str = "") -> int:
    """Ask at the terminal for what the turn waits for: `DONE` when it can go on. Says how to decide what is left."""
    code = asking.decide(journal, turn_id)
    if code != exits.DONE:
        say_waits(journal, turn_id)
        turn = journal.view(Turns).get(turn_id)
        target = target if turn is not None and is_handled(turn) else ""
        say(f"go on with: {hints.going_on(journal.session_id, target)}")
    return code


def _check_policy() -> None:
    """Raises `InvalidPolicy` for a malformed one. A name that no tool has yet may be that of one that is not declared
    before it is used; it is said."""
    for problem in load_policy().unknown():
        say(f"segue: {problem}, so far")


def _attempt(
    opening: Opening,
    call: Callable[[], Any],
    continuation: Callable[[str], str],
    runtime: Runtime | None,
    *,
    verbose: bool,
    asks: bool,
    known: str,
) -> tuple[int, SessionHandle | None]:
    db = default_db()
    shown = FORMATS[opening.output_format]()
    opened = session_context(
        opening.session_id,
        turn_id=opening.turn_id,
        agent_id=opening.agent_id,
        runtime=runtime,
        source=opening.source,
        wait=opening.wait,
        budget=opening.budget,
        db=db,
    )
    ended = _Ended()
    with ended.caught(), stopping.stopped_by_signals(opening.timeout), opened as session:
        _begin(shown, session, ended, known)
        value = call()
        ended.value = asyncio.run(_awaited(value, session)) if inspect.isawaitable(value) else value
    if ended.session is None:
        assert ended.error is not None
        raise ended.error
    _say_warnings(ended.session)
    result = outcome.read(db, ended.session.session_id, ended.session.turn_id, ended.value, ended.error)
    shown.finish(result)
    if result.status == "suspended":
        if not asks:
            say("segue: the turn is suspended")
    elif ended.error is not None:
        hints.say_error(ended.error, verbose=verbose)
    if isinstance(ended.error, StorageError):
        shown_by = hints.command("sessions", "show", result.session_id)
        say(f"segue: the turn stopped before doing more; what was recorded until then: `{shown_by}`")
    elif not (asks and result.status == "suspended"):
        _say_what_next(db, result, opening.target, continuation)
    return _code(ended.error, result) or _unwritten(result), ended.session


class Failed:
    code = exits.FAILED


@contextlib.contextmanager
def own_errors(verbose: bool) -> Iterator[Failed]:
    """The caller's own module failed while it was imported: show where, as Python would, without our frames."""
    failed = Failed()
    try:
        yield failed
    except (click.ClickException, KeyboardInterrupt):
        raise
    except BaseException as error:
        hints.say_error(error, verbose=verbose)
        failed.code = exits.exit_code(error)


class _Ended:
    """How the call ended, whatever it raised."""

    def __init__(self) -> None:
        self.session: SessionHandle | None = None
        self.value: Any = None
        self.error: BaseException | None = None

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.error = error


@contextlib.contextmanager
def _runtime(model: str | None) -> Iterator[Runtime | None]:
    """The runtime of `--model`. Without the option the session makes its own, when one is first needed."""
    runtime = None if model is None else create_runtime(model)
    try:
        yield runtime
    finally:
        if runtime is not None:
            runtime.close()


def _begin(shown: Output, session: SessionHandle, ended: _Ended, known: str) -> None:
    """Say the id, unless it was said, before anything can go wrong: a run that is killed can be found again."""
    ended.session = session
    if session.session_id != known:
        say(f"session: {session.session_id}")
    journal = session.db.journal(session.session_id)
    shown.begin(journal, 0 if session.created else journal.last_seq)


def _say_warnings(session: SessionHandle) -> None:
    for warning in session.writer.turn.meter.warnings:
        amount = f"{warning.spent:.6g} of {warning.allowed:.6g} {UNITS[warning.limit]}"
        say(f"segue: the {warning.scope}'s budget is nearly spent, or more: {amount}")


async def _awaited(value: Any, session: SessionHandle) -> Any:
    session.writer.turn.runs_in(asyncio.current_task())
    try:
        return await value
    finally:
        await session.writer.turn.land_async()


def _say_what_next(
    db: SessionDB, result: outcome.Outcome, target: str, continuation: Callable[[str], str]
) -> None:
    if result.status == "suspended":
        say_waits(db.journal(result.session_id), result.turn_id)
    turn = db.turns(result.session_id).get(result.turn_id)
    target = target if turn is not None and is_handled(turn) else ""
    if result.status == "interrupted" or (target and result.status == "suspended"):
        say(f"go on with: {hints.going_on(result.session_id, target)}")
    elif result.status != "suspended":
        say(f"continue with: {continuation(result.session_id)}")


def say_waits(journal: Journal, turn_id: str) -> bool:
    """Say what the turn waits for, if it waits, and the commands that decide it."""
    turn = journal.view(Turns).get(turn_id)
    waits = [] if turn is None else awaited(journal, turn)
    for where, wait in waits:
        say(hints.waiting(where.session_id, wait))
    return bool(waits)


def _code(error: BaseException | None, result: outcome.Outcome) -> int:
    """A turn that a wait stopped is suspended, whatever its code made of the signal."""
    return exits.SUSPENDED if result.status == "suspended" else exits.exit_code(error)


def _unwritten(result: outcome.Outcome) -> int:
    """What was done is recorded; who asked for the answer has not got it."""
    failure = output.failure()
    if failure is None:
        return exits.DONE
    shown = hints.command("sessions", "show", result.session_id)
    say(f"segue: the answer could not be written: {failure.strerror}; it is in the session, see `{shown}`")
    return exits.FAILED
