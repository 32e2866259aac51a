"""What a run says beside its answer, on standard error."""

from __future__ import annotations

import shlex
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from segue.cli import exits, waits
from segue.cli.visible import exact, say
from segue.errors import Cancelled, SegueError, Suspended
from segue.events.codec import encode_json
from segue.fold.waits import Wait
from segue.settings import load_settings

PLACEHOLDER = "your next message"
_LIBRARY = Path(traceback.__file__).parent
_NOT_THE_USERS = (
    str(Path(__file__).parents[1]),
    str(_LIBRARY / "asyncio"),
    str(_LIBRARY / "importlib"),
    "<frozen ",
)


def say_error(error: BaseException, *, verbose: bool) -> None:
    """One line for our own errors; for others a traceback that begins in the user's code. `verbose` shows all."""
    if verbose:
        say("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, SegueError):
        say(f"segue: {error}")
    elif isinstance(error, (exits.TimeLimit, exits.Terminated, Suspended, Cancelled, KeyboardInterrupt)):
        say(f"segue: {_ending(error)}")
    else:
        say(_short(error))


def continuation(
    target: str,
    model: str | None,
    given: Sequence[str],
    text: str | None,
    session_id: str,
    *,
    route: str | None = None,
) -> str:
    """The command that continues the session, to be pasted from the current folder."""
    words = ["run", target]
    words += ["--route", route] if route else []
    words += ["--model", model] if model else []
    words += [word for pair in given for word in ("--arg", pair)]
    words += ["--session", session_id]
    words += [PLACEHOLDER] if text is not None else []
    return command(*words)


def going_on(session_id: str, target: str = "") -> str:
    """The command that goes on with the session's last turn; a handler's needs to be told where the handler is."""
    return command("resume", session_id, *([target] if target else []))


def command(*words: str) -> str:
    """A command of this program, to be pasted from the current folder."""
    return home_prefix() + shlex.join([*program(), *words])


def waiting(session_id: str, wait: Wait) -> str:
    """What a wait wants, and the commands that decide it."""
    if wait.kind == "question":
        options = f" ({' | '.join(exact(option) for option in wait.options)})" if wait.options else ""
        example = ["--json", "JSON"] if wait.schema else [wait.options[0] if wait.options else "your answer"]
        schema = f"\n  its schema: {exact(encode_json(wait.schema).decode())}" if wait.schema else ""
        answer = command("answer", session_id, wait.id, *example)
        return f"waits for an answer: {waits.asked(wait)}{options}{schema}\n  {answer}"
    called = waits.called(wait, see=command("approvals", session_id, "--full"))
    if wait.kind == "approval":
        return f"waits for an approval: {called}\n  {command('approve', session_id, wait.id)}   (or deny)"
    resolve = command("resolve", session_id, wait.id)
    return f"was interrupted, outcome unknown: {called}\n  {resolve} --retry   (or --skip, or --result JSON)"


def program() -> list[str]:
    """How this program was called: by its name where that finds it."""
    called = Path(sys.argv[0])
    if called.name != "segue":
        return ["python", "-m", "segue"]
    found = shutil.which("segue")
    return ["segue"] if found and called.exists() and called.samefile(found) else [str(called)]


def home_prefix() -> str:
    """`SEGUE_HOME=... ` when the sessions are not in the usual place."""
    home = load_settings().home
    if home == Path.home() / ".segue":
        return ""
    shown = home.relative_to(Path.cwd()) if home.is_relative_to(Path.cwd()) else home
    return f"SEGUE_HOME={shlex.quote(str(shown))} "


def _ending(error: BaseException) -> str:
    if isinstance(error, exits.TimeLimit):
        return "the time limit passed: the turn is interrupted"
    if isinstance(error, exits.Terminated):
        return "terminated: the turn is interrupted"
    return "the turn is suspended" if isinstance(error, Suspended) else "the turn is cancelled"


def _short(error: BaseException) -> str:
    shown = traceback.TracebackException.from_exception(error)
    inner: traceback.TracebackException | None = shown
    while inner is not None:
        kept = [frame for frame in inner.stack if not frame.filename.startswith(_NOT_THE_USERS)]
        inner.stack = traceback.StackSummary.from_list(kept or inner.stack)
        inner = inner.__cause__ or inner.__context__
    return "".join(shown.format()).rstrip()
