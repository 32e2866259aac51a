"""What a turn waits for: in its own session, and in those that it opened inside."""

from __future__ import annotations

from segue.errors import Suspended
from segue.fold.turns import Turn
from segue.fold.waits import Wait
from segue.journal import Journal, open_journal
from segue.session.decisions import open_waits


def awaited(journal: Journal, turn: Turn) -> list[tuple[Journal, Wait]]:
    """What keeps a turn from going on: its own open waits, and those of turns of other sessions that it opened inside,
    each with the journal that it is to be decided in."""
    own = [(journal, wait) for wait in open_waits(journal) if wait.turn_id == turn.turn_id]
    store = journal.store
    others = [
        open_journal(store, session_id)
        for session_id in dict.fromkeys(turn.elsewhere.values())
        if session_id != journal.session_id and store.exists(session_id)
    ]
    inside = [
        (other, wait)
        for other in others
        for wait in open_waits(other)
        if turn.elsewhere.get(wait.id) == other.session_id
    ]
    return own + inside


def waiting(journal: Journal, turn: Turn) -> Suspended | None:
    """The signal of a turn that somebody has to decide on before it goes on."""
    found = awaited(journal, turn)
    places = {wait.id: where.session_id for where, wait in found if where is not journal}
    return Suspended(journal.session_id, [wait.id for _, wait in found], places) if found else None
