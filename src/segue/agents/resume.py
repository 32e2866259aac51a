"""Going on with a turn that was suspended or interrupted: its function is called again, and what it had finished is
answered from the record."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from segue.agents.function import AgenticFunction, run_in
from segue.errors import InvalidArguments, NotResumable, SessionBusy, UsageError
from segue.events.codec import encode_json
from segue.events.json_values import to_json
from segue.fold.graph import CallGraph, Node
from segue.fold.turns import SETTLED, Turn, Turns
from segue.journal import Journal
from segue.session.awaited import waiting
from segue.session.budget import Budget
from segue.session.context import ambient_db, session_context
from segue.session.db import SessionDB
from segue.session.recovery import close_dead_turn
from segue.session.runtime import Runtime
from segue.tools.tool import as_tool


def resume(
    session_id: str,
    *,
    function: Callable[..., Any] | None = None,
    runtime: Runtime | None = None,
    source: str = "code",
    wait: float = 0.0,
    budget: Budget | None = None,
    db: SessionDB | None = None,
) -> Any:
    """Go on with the session's last turn: `Run(value, session_id, turn_id)`, awaitable for an async function.

    The turn must have been begun by one call of an agentic function, which is imported by its recorded name unless
    `function` gives it. Execution really goes on at its first unfinished step: finished ones are not done again.

    `budget` is what the turn may spend in all; without it, what it might before.

    Raises `NotResumable` saying why, `SessionBusy` while the turn runs, the signal `Suspended` while it waits for
    somebody, `SessionNotFound`, and what the function raises.
    """
    db = db or ambient_db()
    journal = db.journal(session_id)
    turn = unfinished_turn(journal, source)
    signal = waiting(journal, turn)
    if signal is not None:
        raise signal
    root = root_call(journal, turn)
    called = function or imported(root.name)
    arguments = recorded_arguments(called, root)
    opened = session_context(
        session_id,
        turn_id=turn.turn_id,
        agent_id=turn.agent_id,
        runtime=runtime,
        source=source,
        wait=wait,
        budget=budget,
        db=db,
    )
    return run_in(opened, lambda: called(**arguments), is_async=getattr(called, "is_async", False))


def unfinished_turn(journal: Journal, source: str) -> Turn:
    """The last turn, not settled and not running. Raises `NotResumable`, `SessionBusy`."""
    close_dead_turn(journal, source)
    turn = journal.view(Turns).last
    if turn is None:
        raise NotResumable(f"session {journal.session_id} has no turn yet: there is nothing to go on with")
    if turn.status in SETTLED:
        raise NotResumable(
            f"the last turn of session {journal.session_id} is over ({turn.status}): start a new one"
        )
    if turn.status == "running":
        holder = journal.store.holder(journal.session_id) or "somebody"
        raise SessionBusy(f"session {journal.session_id} is busy: {holder}", holder=holder)
    return turn


def root_call(journal: Journal, turn: Turn) -> Node:
    """The one call that began the turn. Raises `NotResumable` where code that is no function did."""
    if turn.reason.get("kind") == "user_message":
        raise NotResumable(
            f"turn {turn.turn_id} was begun by a handler: segue.drive goes on with it, given its app"
        )
    with journal.viewing(CallGraph) as graph:
        roots = [node for node in graph.roots() if node.turn_id == turn.turn_id]
    if len(roots) == 1 and roots[0].kind == "function":
        return roots[0]
    raise NotResumable(
        f"turn {turn.turn_id} was not begun by one call of an agentic function: run the program that began it again,"
        f" with session_context({journal.session_id!r}, turn_id={turn.turn_id!r})"
    )


def _find(name: str) -> Any:
    module_name, _, qualname = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def imported(name: str, find: Callable[[str], Any] = _find) -> AgenticFunction[..., Any]:
    """The agentic function of that recorded name, `module:qualname`. Raises `NotResumable`."""
    module_name, _, qualname = name.partition(":")
    if module_name == "__main__" or "<locals>" in qualname or "<lambda>" in qualname:
        raise NotResumable(
            f"{name} cannot be imported: put the function into a module, or give it to resume as `function`"
        )
    try:
        found = find(name)
    except (ImportError, AttributeError, UsageError) as error:
        raise NotResumable(
            f"{name} is not to be found here ({error}): go to the folder it was run in, or give the function"
        ) from error
    if not isinstance(found, AgenticFunction):
        raise NotResumable(f"{name} is no agentic function any more, but {type(found).__name__}")
    return found


def recorded_arguments(function: Callable[..., Any], root: Node) -> dict[str, Any]:
    """The recorded arguments as the function takes them. Raises `NotResumable` when they do not decode to the same."""
    try:
        bound = as_tool(function).bind(encode_json(root.arguments or {}).decode())
    except InvalidArguments as error:
        raise NotResumable(
            f"the recorded arguments of {root.name} do not fit it any more: {error}"
        ) from error
    if to_json(bound) != (root.arguments or {}):
        raise NotResumable(
            f"the recorded arguments of {root.name} do not decode to what they were: annotate its parameters"
        )
    return bound
