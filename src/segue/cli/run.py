"""`segue run`: one call of a function as one turn of a durable session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from segue.agents.function import AgenticFunction
from segue.cli import binding, choosing, completion, hints, limits, resume, running, target
from segue.cli.main import Options
from segue.cli.output import FORMATS, answers_only
from segue.cli.stdin import piped_text
from segue.errors import UsageError
from segue.handlers.app import AgentApp, as_app, is_app
from segue.handlers.running import run_handler, user_message
from segue.session.db import SessionDB, default_db


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `segue run`, as click read it."""

    target: str
    text: str | None
    arg: tuple[str, ...]
    route: str | None
    session: str | None
    resume: str | None
    continue_: bool
    model: str | None
    output_format: str
    source: str
    timeout: float | None
    wait: float
    max: tuple[str, ...]


@click.command()
@click.argument("target", metavar="MODULE:FUNCTION")
@click.argument("text", required=False)
@click.option(
    "--arg", multiple=True, metavar="NAME=VALUE", help="Set a parameter; JSON unless it takes text."
)
@click.option("--route", metavar="PATH", help="Which handler of an app.  [default: / or the only one]")
@click.option(
    "--session", metavar="ID", shell_complete=completion.session_ids, help="Continue or create this session."
)
@click.option(
    "--resume",
    metavar="ID",
    shell_complete=completion.session_ids,
    help="Continue; an unknown id is an error.",
)
@click.option(
    "-c", "--continue", "continue_", is_flag=True, help="Continue the session that was active last."
)
@click.option("--model", metavar="DIALECT:MODEL", help="Such as local, openai:gpt-5-mini, scripted:FILE.")
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
def run(options: Options, /, **words: Any) -> int:
    """Run a function, or a handler, in a durable session.

    MODULE:FUNCTION is imported from the current folder; path/file.py:FUNCTION works too. TEXT goes to the first `str`
    parameter that no --arg fills; to a handler, or an AgentApp, it is what the user says. What is piped in is appended
    to it, or is the text when TEXT is left out or `-`.

    Standard output carries only the answer; the session's id and how to continue go to standard error.
    """
    wanted = Wanted(**words)
    with running.own_errors(options.verbose) as failed, answers_only():
        found = target.load_target(wanted.target)
        agent_id, call = _call(found, wanted)
        place = wanted.target if is_app(found) or is_agentic(found) else None
        return running.run(
            _opening(wanted, agent_id),
            call,
            lambda session_id: hints.continuation(
                wanted.target, wanted.model, wanted.arg, wanted.text, session_id, route=wanted.route
            ),
            again=lambda opening: resume.next_attempt(opening, place),
            verbose=options.verbose,
        )
    return failed.code


def _call(found: Any, wanted: Wanted) -> tuple[str, Callable[[], Any]]:
    """What is called, and the `agent_id` of its turn: for a handler its route."""
    if is_app(found):
        return _handler_call(as_app(found), wanted)
    if wanted.route is not None:
        raise UsageError(f"--route is for an AgentApp; {wanted.target} is a function")
    bound = _bind(found, wanted)
    return "main", lambda: found(*bound.args, **bound.kwargs)


def _handler_call(app: AgentApp, wanted: Wanted) -> tuple[str, Callable[[], Any]]:
    said = _text(wanted.text, takes_text=True)
    if wanted.arg:
        raise UsageError("--arg is for functions: a handler is told TEXT")
    if not (said and said.strip()):
        raise UsageError(f"{wanted.target} is a handler: say something to it, as TEXT")
    path = app.route(wanted.route)
    return path, lambda: run_handler(app, path, user_message(said))


def _bind(function: Callable[..., Any], wanted: Wanted) -> binding.Bound:
    parameters = binding.parameters_of(function, without=("runtime",) if is_agentic(function) else ())
    takes_text = binding.text_parameter(parameters, wanted.arg) is not None
    return binding.bind(parameters, _text(wanted.text, takes_text), wanted.arg)


def _text(text: str | None, takes_text: bool) -> str | None:
    """TEXT with what was piped in below it. Input is left alone, for whoever owns it, when nothing takes a text."""
    if not takes_text:
        return text
    piped = piped_text(insist=text == "-")
    if text is None or text == "-":
        return piped or (None if text is None else "")
    return f"{text}\n\n{piped}" if piped else text


def is_agentic(function: Any) -> bool:
    while function is not None:
        if isinstance(function, AgenticFunction):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _opening(wanted: Wanted, agent_id: str) -> running.Opening:
    return running.Opening(
        agent_id=agent_id,
        target=wanted.target,
        session_id=_session_id(default_db(), wanted),
        model=wanted.model,
        output_format=wanted.output_format,
        source=wanted.source,
        timeout=wanted.timeout,
        wait=wanted.wait,
        budget=limits.budget(wanted.max),
    )


def _session_id(db: SessionDB, wanted: Wanted) -> str | None:
    if sum((wanted.session is not None, wanted.resume is not None, wanted.continue_)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other")
    if wanted.resume is not None:
        return choosing.existing(db, wanted.resume)
    return choosing.latest(db) if wanted.continue_ else wanted.session
