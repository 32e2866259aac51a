"""`segue run`: one call of a function as one turn of a durable session."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec

from segue.agents.function import AgenticFunction
from segue.cli import binding, choosing, completion, exits, hints, outcome, output, stopping, target
from segue.cli.main import Options
from segue.cli.output import FORMATS, Output, answers_only
from segue.cli.stdin import piped_text
from segue.cli.visible import say
from segue.errors import UsageError
from segue.session.context import SessionHandle, session_context
from segue.session.db import SessionDB, default_db
from segue.session.runtime import Runtime, create_runtime


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of `segue run`, as click read it."""

    target: str
    text: str | None
    arg: tuple[str, ...]
    session: str | None
    resume: str | None
    continue_: bool
    model: str | None
    output_format: str
    source: str
    timeout: float | None
    wait: float


@click.command()
@click.argument("target", metavar="MODULE:FUNCTION")
@click.argument("text", required=False)
@click.option(
    "--arg", multiple=True, metavar="NAME=VALUE", help="Set a parameter; JSON unless it takes text."
)
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
@click.option("--source", default="cli", show_default=True, help="What the record says the entry point is.")
@click.pass_obj
def run(options: Options, /, **words: Any) -> int:
    """Run a function in a durable session.

    MODULE:FUNCTION is imported from the current folder; path/file.py:FUNCTION works too. TEXT goes to the first `str`
    parameter that no --arg fills. What is piped in is appended to it, or is the text when TEXT is left out or `-`.

    Standard output carries only the answer; the session's id and how to continue go to standard error.
    """
    wanted = Wanted(**words)
    with _own_errors(options) as failed, answers_only():
        function = target.load_target(wanted.target)
        bound = _bind(function, wanted)
        return _run(options, wanted, function, bound)
    return failed.code


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


def _run(options: Options, wanted: Wanted, function: Callable[..., Any], bound: binding.Bound) -> int:
    db = default_db()
    session_id = _session_id(db, wanted)
    shown = FORMATS[wanted.output_format]()
    with _runtime(wanted.model) as runtime:
        opened = session_context(
            session_id, runtime=runtime, source=wanted.source, wait=wanted.wait, db=db, agent_id="main"
        )
        ended = _Ended()
        with ended.caught(), stopping.stopped_by_signals(wanted.timeout), opened as session:
            _begin(shown, session, ended)
            ended.value = _call(function, bound)
    if ended.session is None:
        assert ended.error is not None
        raise ended.error
    result = outcome.read(db, ended.session.session_id, ended.session.turn_id, ended.value, ended.error)
    shown.finish(result)
    _report(options, wanted, result, ended.error, db)
    return exits.exit_code(ended.error) or _unwritten(result)


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


def _session_id(db: SessionDB, wanted: Wanted) -> str | None:
    if sum((wanted.session is not None, wanted.resume is not None, wanted.continue_)) > 1:
        raise UsageError("--session, --resume and --continue exclude each other")
    if wanted.resume is not None:
        return choosing.existing(db, wanted.resume)
    return choosing.latest(db) if wanted.continue_ else wanted.session


@contextlib.contextmanager
def _runtime(model: str | None) -> Iterator[Runtime | None]:
    """The runtime of `--model`. Without the option the session makes its own, when one is first needed."""
    runtime = None if model is None else create_runtime(model)
    try:
        yield runtime
    finally:
        if runtime is not None:
            runtime.close()


def _begin(shown: Output, session: SessionHandle, ended: _Ended) -> None:
    """Say the id before anything can go wrong: a run that is killed can be found again."""
    ended.session = session
    say(f"session: {session.session_id}")
    journal = session.db.journal(session.session_id)
    shown.begin(journal, 0 if session.created else journal.last_seq)


def _call(function: Callable[..., Any], bound: binding.Bound) -> Any:
    value = function(*bound.args, **bound.kwargs)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _report(
    options: Options, wanted: Wanted, result: outcome.Outcome, error: BaseException | None, db: SessionDB
) -> None:
    if error is not None:
        hints.say_error(error, verbose=options.verbose)
    for question in outcome.open_questions(db, result):
        say(f"waits for an answer: {question}")
    say(
        f"continue with: {hints.continuation(wanted.target, wanted.model, wanted.arg, wanted.text, result.session_id)}"
    )


def _unwritten(result: outcome.Outcome) -> int:
    """What was done is recorded; who asked for the answer has not got it."""
    failure = output.failure()
    if failure is None:
        return exits.DONE
    shown = f"{hints.home_prefix()}segue sessions show {result.session_id}"
    say(f"segue: the answer could not be written: {failure.strerror}; it is in the session, see `{shown}`")
    return exits.FAILED


class _Failed:
    code = exits.FAILED


@contextlib.contextmanager
def _own_errors(options: Options) -> Iterator[_Failed]:
    """The caller's own module failed while it was imported: show where, as Python would, without our frames."""
    failed = _Failed()
    try:
        yield failed
    except (click.ClickException, KeyboardInterrupt):
        raise
    except BaseException as error:
        hints.say_error(error, verbose=options.verbose)
        failed.code = exits.exit_code(error)
