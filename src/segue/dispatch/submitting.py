"""Submitting: what is to be done is in the record before anybody is told that it was taken."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Literal

import msgspec

from segue.errors import SessionBusy, StaleWriter, UsageError
from segue.events.facts import TurnSubmitted
from segue.fold.submissions import Submissions
from segue.fold.turns import Turns
from segue.handlers.running import user_message
from segue.ids import new_id
from segue.journal import Journal
from segue.session.budget import Budget

Mode = Literal["queue", "steer", "refuse"]


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    turn_id: str
    """Of the turn that it begins; of a message that steers a running turn, its id in the conversation."""
    client_id: str
    is_new: bool
    """Whether this call submitted it, or an earlier one under the same client id."""


def submit(
    journal: Journal,
    input: Any,
    *,
    path: str = "/",
    client_id: str | None = None,
    mode: Mode = "queue",
    budget: Budget | None = None,
) -> Submitted:
    """Record what a user says, for the dispatcher of this store, in whatever process, to run it. Durable on return.

    `client_id` is the caller's own name for it: submitting it again, after a lost answer or a crash, does nothing more.
    While a turn runs, or others wait, it is done after them (`queue`), it reaches the running turn where all its calls
    are answered (`steer`), or it is refused. Only text steers, and only the handler of its own route, if that takes it,
    as `chat_agent` does; else it is done after the others. `budget` is what its turn may spend.

    Raises `UsageError` for blank input, `SessionBusy` when it is refused, `StorageError`.
    """
    if isinstance(input, str) and not input.strip():
        raise UsageError("the input is blank: a turn begins with something to say")
    if mode == "steer" and not isinstance(input, str):
        raise UsageError("only text can be sent into a running turn")
    client_id = client_id or new_id("sub")
    turn_id = _turn_id(journal.session_id, client_id)
    row = TurnSubmitted(
        client_id=client_id,
        reason=user_message(input),
        mode=mode,
        turn_id=turn_id,
        agent_id=path,
        budget=None if budget is None else budget.recorded(),
    )
    is_new = not _is_known(journal, turn_id)
    if is_new and mode == "refuse":
        is_new = _append_when_idle(journal, row)
    elif is_new:
        journal.append(row)
    return Submitted(session_id=journal.session_id, turn_id=turn_id, client_id=client_id, is_new=is_new)


def _turn_id(session_id: str, client_id: str) -> str:
    """The same for each try of a client, so that two at once make one turn."""
    names = f"{session_id}\0{client_id}".encode("utf-8", "surrogatepass")
    return f"turn_{hashlib.sha256(names).hexdigest()[:16]}"


def _is_known(journal: Journal, turn_id: str) -> bool:
    with journal.viewing(Submissions) as submissions:
        return submissions.knows(turn_id)


def _append_when_idle(journal: Journal, row: TurnSubmitted) -> bool:
    """Written only onto the very state that was looked at: of two that come at once, one is refused."""
    while True:
        last = journal.last_seq
        if _is_known(journal, row.turn_id):
            return False
        _require_idle(journal)
        with contextlib.suppress(StaleWriter):
            journal.append(row, expected_seq=last)
            return True


def _require_idle(journal: Journal) -> None:
    turn, holder = journal.view(Turns).last, journal.store.holder(journal.session_id)
    with journal.viewing(Submissions) as submissions:
        waiting = len(submissions.pending)
    if waiting or holder is not None or (turn is not None and turn.status == "running"):
        raise SessionBusy(
            f"session {journal.session_id} is busy: {holder or 'a turn was submitted before'}",
            holder=holder or "",
        )
