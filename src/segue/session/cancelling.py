"""Cancelling a turn from outside, wherever it runs."""

from __future__ import annotations

from segue.errors import NotWaiting, SessionBusy
from segue.events.facts import CancelRequested
from segue.fold.submissions import Submissions
from segue.fold.turns import SETTLED, Turn, Turns
from segue.journal import Journal
from segue.session.recovery import cancelled, recover
from segue.session.tailing import tails
from segue.session.turn import NOT_RUN


def cancel(journal: Journal, turn_id: str = "", *, reason: str = "") -> str:
    """Ask for the end of a turn: the last one, or one that was submitted and has not begun. Durable on return.

    A running one stops its steps and ends as cancelled, unless it is over before; of any other this is the end: what it
    waits for is denied. Gives the turn's id. Asking again does nothing more, nor does it for a turn that is over.

    Raises `NotWaiting` when there is no such turn, `StorageError`.
    """
    with journal.viewing(Submissions) as submissions:
        is_pending = submissions.is_pending(turn_id)
        is_withdrawn = submissions.is_withdrawn(turn_id)
    turn = journal.view(Turns).get(turn_id) if turn_id else journal.view(Turns).last
    if turn is None and not (is_pending or is_withdrawn):
        raise NotWaiting(f"session {journal.session_id} has no turn {turn_id or 'yet'}")
    if turn is None:
        if is_pending:
            journal.append(CancelRequested(turn_id=turn_id, reason=reason))
        return turn_id
    if turn.status not in SETTLED and not turn.cancelling:
        _request(journal, turn, CancelRequested(turn_id=turn.turn_id, reason=reason))
    return turn.turn_id


def _request(journal: Journal, turn: Turn, requested: CancelRequested) -> None:
    try:
        lease = journal.acquire(holder="cancel")
    except SessionBusy:  # whoever runs it is told: at once here, elsewhere at its next look
        journal.append(requested)
        tails.look()
        return
    try:
        recover(journal, lease)
        found = journal.view(Turns).get(turn.turn_id)
        if found is None or found.status in SETTLED:  # it was faster
            return
        journal.append(requested, *cancelled(journal, turn.turn_id, requested.reason, NOT_RUN), lease=lease)
        journal.store.commit(journal.session_id, f"{turn.turn_id} (cancelled)")
    finally:
        journal.release(lease)
