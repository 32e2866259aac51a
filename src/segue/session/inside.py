"""Sessions that are opened inside a turn: when that turn runs again, it finds the turns that it opened before.

Their ids follow from where they were opened, so that no row has to say it: the outer turn, the call whose code opened
it, the session, and how many such ones that code had opened before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from segue.fold.turns import SETTLED, Turns
from segue.fold.turns import Turn as RecordedTurn

if TYPE_CHECKING:
    from segue.session.db import SessionDB
    from segue.session.turn import Turn

Find = Callable[[str], RecordedTurn | None]


def inner_turn_id(outer: Turn, caller: str, where: str, purpose: str, find: Find) -> str:
    """The id of a turn that code in the call `caller` of the turn `outer` opens now: that of the recorded one which it
    stands for, or of a new one.

    `where` is the session, or for one that is made the prefix of its id. `purpose` is what the turn is opened for,
    where that can be told: equal ones stand for each other in the order they are opened. `find` gives a recorded turn.

    What a handler itself opens without a purpose goes on or is new: a handler is invoked again for other reasons too.
    """
    begins_anew = outer.handled and not (caller or purpose)
    while True:
        turn_id = _in_one_place(outer, caller, f"{where}\0{purpose}", find)
        recorded = find(turn_id) if begins_anew else None
        if recorded is None or recorded.status not in SETTLED:
            return turn_id


def inner_session_id(prefix: str, turn_id: str) -> str:
    """Of a session that is made for an inner turn."""
    return f"{prefix}_{_digest(turn_id)}"


def recorded_turn(db: SessionDB, session_id: str, turn_id: str) -> RecordedTurn | None:
    return db.journal(session_id).view(Turns).get(turn_id) if db.store.exists(session_id) else None


def _in_one_place(outer: Turn, caller: str, what: str, find: Find) -> str:
    """Where the call failed and is done over, what had failed inside is done over with it."""
    line = outer.replay.line(caller)
    number = outer.opened_inside(f"{line[0]}\0{what}")
    ids: Iterator[str] = (
        f"turn_{_digest(outer.session_id, outer.turn_id, call, what, str(number))}" for call in line
    )
    for turn_id in ids:
        recorded = find(turn_id)
        if recorded is None or recorded.status not in ("failed", "cancelled"):
            break
    return turn_id


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
