"""Going on with a turn that was suspended or interrupted, whoever began it."""

from __future__ import annotations

from typing import Any

from segue.agents.resume import resume as resume_function
from segue.agents.resume import unfinished_turn
from segue.errors import NotResumable
from segue.handlers.drive import drive, is_handled
from segue.session.budget import Budget
from segue.session.context import ambient_db
from segue.session.db import SessionDB
from segue.session.runtime import Runtime


def resume(
    session_id: str,
    *,
    function: Any = None,
    runtime: Runtime | None = None,
    source: str = "code",
    wait: float = 0.0,
    budget: Budget | None = None,
    db: SessionDB | None = None,
) -> Any:
    """Go on with the session's last turn: `Run(value, session_id, turn_id)`, to be awaited for a handler and for an
    async function.

    A turn that one call of an agentic function began: the function is imported by its recorded name unless `function`
    gives it, and execution really goes on at its first unfinished step; finished ones are not done again. A turn that
    a handler began: `function` is the handler, or its app, which is invoked again.

    `budget` is what the turn may spend in all; without it, what it might before.

    Raises `NotResumable` saying why, `SessionBusy` while the turn runs, the signal `Suspended` while it waits for
    somebody, `SessionNotFound`, and what the code raises.
    """
    db = db or ambient_db()
    turn = unfinished_turn(db.journal(session_id), source)
    if not is_handled(turn):
        return resume_function(
            session_id, function=function, runtime=runtime, source=source, wait=wait, budget=budget, db=db
        )
    if function is None:
        raise NotResumable(
            f"turn {turn.turn_id} was begun by the handler of {turn.agent_id}, and the record does not say where that"
            " is: give the handler, or its app, as `function`; at the command line as MODULE:NAME"
        )
    return drive(
        function, session_id, runtime=runtime, source=source, wait=wait, budget=budget, db=db
    ).finish()
