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
from segue.errors import SegueError

COMMANDS = {
    "completion": ("segue.cli.completion:completion", "Print the script for tab completion in a shell."),
    "fold": ("segue.cli.fold:fold", "Turn a journal on standard input into chat messages."),
    "models": ("segue.cli.models:models", "Show which model answers, and why."),
    "run": ("segue.cli.run:run", "Run a function in a durable session."),
    "sessions": ("segue.cli.sessions:sessions", "Look at sessions."),
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
        click.echo("segue: interrupted", err=True)
        return exits.INTERRUPTED
    except SegueError as error:
        if options.verbose:
            traceback.print_exc()
        click.echo(f"segue: {error}", err=True)
        return exits.exit_code(error)


def _accept_any_text() -> None:
    """A model's answer may hold what the terminal's encoding does not: show a mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _reader_left() -> int:
    """Nothing is wrong with what was done. The interpreter's last flush goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return exits.DONE


if __name__ == "__main__":
    sys.exit(main())
