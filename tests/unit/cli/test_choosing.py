"""Which session an id, the beginning of one, or none at all means."""

from __future__ import annotations

import pytest

from segue.cli.choosing import existing, latest
from segue.errors import SessionNotFound, UsageError
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.stores.memory import MemoryStore


def sessions(*ids: str) -> SessionDB:
    db = SessionDB(MemoryStore())
    for session_id in ids:
        db.create_session(session_id)
    return db


def test_a_whole_id_wins_over_being_the_beginning_of_others() -> None:
    assert existing(sessions("april", "april_2"), "april") == "april"


def test_the_only_session_that_begins_so_is_meant() -> None:
    assert existing(sessions("april", "may"), "m") == "may"


def test_several_that_begin_so_are_named_up_to_five() -> None:
    db = sessions(*(f"april_{number}" for number in range(7)))
    with pytest.raises(UsageError) as refused:
        existing(db, "april")
    named = "april_0, april_1, april_2, april_3, april_4 and 2 more"
    assert str(refused.value) == f"'april' is the beginning of 7 sessions: {named}"


def test_an_unknown_id_is_not_created() -> None:
    db = sessions("april")
    with pytest.raises(SessionNotFound, match="there is no session 'zzz'"):
        existing(db, "zzz")
    assert db.store.sessions() == ["april"]


def test_no_id_at_all_is_not_the_beginning_of_every_id() -> None:
    with pytest.raises(SessionNotFound):
        existing(sessions("april"), "")


def test_the_latest_is_the_one_whose_turn_is_newest() -> None:
    db = sessions()
    for session_id in ("april", "may", "april"):
        with session_context(session_id, db=db, create_runtime_if_none=False) as session:
            node = session.writer.append({"kind": "function", "name": "f"})
            session.writer.update(node, status="completed")
    db.create_session("looked_at_later")
    assert latest(db) == "april"


def test_without_a_turn_anywhere_there_is_no_latest() -> None:
    with pytest.raises(SessionNotFound, match="no session to continue"):
        latest(sessions("april"))
