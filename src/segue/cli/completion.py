"""Tab completion: the scripts for shells, and what completes a session id."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from segue.errors import SegueError
from segue.journal import Journal
from segue.session import decisions
from segue.session.db import default_db


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for tab completion in a shell.

    For bash: eval "$(segue completion bash)" in ~/.bashrc.
    """
    maker = get_completion_class(shell)
    assert maker is not None, "click knows all three"
    root = context.find_root()
    click.echo(maker(root.command, {}, "segue", "_SEGUE_COMPLETE").source())


def session_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Sessions whose id begins with what was typed; none when they cannot be read."""
    try:
        known = default_db().store.sessions()
    except SegueError:
        return []
    return [CompletionItem(session_id) for session_id in known if session_id.startswith(incomplete)]


def wait_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What waits in the session that was typed before."""
    return _of_session(
        context, incomplete, lambda journal: [wait.id for wait in decisions.open_waits(journal)]
    )


def rule_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The rules of the session that was typed before."""
    return _of_session(context, incomplete, lambda journal: [rule.id for rule in decisions.rules(journal)])


def _of_session(
    context: click.Context, incomplete: str, ids: Callable[[Journal], list[str]]
) -> list[CompletionItem]:
    session = context.params.get("session")
    try:
        known = ids(default_db().journal(session)) if session else []
    except SegueError:
        return []
    return [CompletionItem(found) for found in known if found.startswith(incomplete)]
