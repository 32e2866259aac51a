"""The program `segue`. The only reader of the command line; commands are imported when they are run."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from segue import __version__
from segue.cli import exits
from segue.cli.lazy import LazyGroup
from segue.cli.visible import say
from segue.errors import SegueError

COMMANDS = {
    "answer": ("segue.cli.deciding:answer", "Answer a question that a turn waits for."),
    "approvals": (
        "segue.cli.deciding:approvals",
        "List everything that waits for somebody, in all sessions or in one.",
    ),
    "approve": ("segue.cli.deciding:approve", "Let one call run that waits for an approval."),
    "cancel": ("segue.cli.cancel:cancel", "End a turn: the session's last one, or TURN."),
    "completion": ("segue.cli.completion:completion", "Print the script for tab completion in a shell."),
    "deny": ("segue.cli.deciding:deny", "Refuse one call that waits for an approval."),
    "fold": ("segue.cli.fold:fold", "Turn a journal on standard input into chat messages."),
    "models": ("segue.cli.models:models", "Show which model answers, and why."),
    "resolve": ("segue.cli.deciding:resolve", "Say what became of a call whose outcome nobody knows."),
    "resume": ("segue.cli.resume:resume", "Go on with a turn that was suspended or interrupted."),
    "rules": ("segue.cli.rules:rules", "Show which calls are granted without asking."),
    "run": ("segue.cli.run:run", "Run a function, or a handler, in a durable session."),
    "sessions": ("segue.cli.sessions:sessions", "Look at sessions, check and repair them."),
}


class Options:
    """What is said once, before the command; commands get it as click's `obj`."""

    verbose = False


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="segue")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks of errors.")
@click.pass_obj
def cli(options: Options, verbose: bool) -> None:
    """One durable session for LLM agents, from every entry point, through every crash.

    Exit codes: 0 done, 1 failed, 2 usage, 3 suspended, 4 denied, 5 busy, 124 time limit, 130 Ctrl-C, 143 SIGTERM.
    """
    options.verbose = verbose


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code. Answers go to stdout, all else to stderr."""
    _open_missing_streams()
    _accept_any_text()
    before = sys.stdout
    try:
        return _run(arguments)
    except BrokenPipeError:
        return _reader_left()
    except SystemExit:
        if sys.stdout is not before:  # what click does at a broken pipe
            return _reader_left()
        raise
    except OSError as error:
        return _output_failed(error)


def _run(arguments: Sequence[str] | None) -> int:
    options = Options()
    try:
        code = cli.main(args=arguments, prog_name="segue", standalone_mode=False, obj=options)
        sys.stdout.flush()
        return code if isinstance(code, int) else exits.DONE
    except click.ClickException as error:
        error.show(sys.stderr)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("segue: interrupted")
        return exits.INTERRUPTED
    except SegueError as error:
        if options.verbose:
            traceback.print_exc()
        say(f"segue: {error}")
        return exits.exit_code(error)


def _open_missing_streams() -> None:
    """A standard stream that whoever started us closed goes nowhere. Left closed, the next file that is opened, a
    session's perhaps, would get its number, and be written into by everything that prints."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _accept_any_text() -> None:
    """A model's answer may hold what the terminal's encoding does not: show a mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _output_failed(error: OSError) -> int:
    """Our own files fail with a `StorageError`: what is left is an output that takes no more, a full disk's."""
    _reader_left()
    say(f"segue: the output could not be written: {error.strerror or error}")
    return exits.FAILED


def _reader_left() -> int:
    """Nothing is wrong with what was done. The interpreter's last flush goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return exits.DONE


if __name__ == "__main__":
    sys.exit(main())
