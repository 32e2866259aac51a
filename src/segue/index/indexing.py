"""Bringing the index up to date: read the visible rows, note them in one transaction, then take the mark away.

In this order a crash at any point leaves at worst a mark too many. Nothing here counts on being the only one: what
another process noted meanwhile is seen inside the transaction, and that session is read again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from segue.errors import SessionNotFound, StorageError
from segue.events.codec import decode_json, encode_json
from segue.events.envelope import Envelope
from segue.events.json_values import to_json
from segue.fold.summary import SessionInfo, Summary, SummaryState
from segue.fold.turns import Turn
from segue.index.database import Database
from segue.index.documents import Document, Documents, DocumentsState
from segue.index.filters import DAMAGED, tags_key, title_key
from segue.index.words import cleaned, parts, separated
from segue.stores.protocol import Store

BATCH_SESSIONS, BATCH_CHARACTERS = 100, 4_000_000
"""One transaction takes this many sessions, or this much text, at most."""
PLACES = 33
"""Bits of a document's rowid that say where in its session it is."""

Progress = Callable[[int, int], None]
"""Called with how many of how many sessions are done."""


class State(msgspec.Struct):
    """What has to be known to go on after the last row that is in the index."""

    summary: SummaryState
    documents: DocumentsState


class Standing(msgspec.Struct, frozen=True):
    """How far a session is in the index."""

    key: int
    seq: int
    row_id: bytes
    info: bytes
    state: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's journal says beyond the index."""

    session_id: str
    standing: Standing | None
    """Where the reading found the index; another one there now makes it void."""
    info: SessionInfo | None = None
    """None: the session is gone."""
    seq: int = 0
    row_id: bytes = b""
    state: bytes = b""
    turns: list[Turn] = []
    documents: dict[int, Document] = {}
    whole: bool = True
    """It begins with the first row: what the index has of the session goes."""

    @property
    def size(self) -> int:
        return sum(len(document.text) for document in self.documents.values())


def catch_up(database: Database, store: Store, progress: Progress | None = None) -> None:
    """Note whatever changed. Raises sqlite3.Error, and `StorageError` when the sessions cannot even be listed."""
    census = store.census()
    compare = not census or database.value("fact", name="census") != census
    waiting = {*store.marked(), *(row[0] for row in database.rows("with_status", status=DAMAGED))}
    if compare:
        waiting |= set(store.sessions()) ^ {row[0] for row in database.rows("session_ids")}
    if waiting:
        _index(database, store, sorted(waiting), progress or (lambda done, total: None))
    if compare and census:
        with database.writing():
            database.rows("set_fact", name="census", value=census)


def _index(database: Database, store: Store, session_ids: list[str], progress: Progress) -> None:
    begin = os.getpid() % len(session_ids)  # two processes that index everything do not walk in step
    waiting = [*session_ids[begin:], *session_ids[:begin]]
    total = len(waiting)
    while waiting:
        batch: list[Reading] = []
        while (
            waiting and len(batch) < BATCH_SESSIONS and sum(found.size for found in batch) < BATCH_CHARACTERS
        ):
            batch.append(read(database, store, waiting.pop()))
            progress(total - len(waiting), total)
        waiting += note(database, store, batch)


def forget(database: Database, session_id: str) -> None:
    """As if it had never been seen. Raises sqlite3.Error."""
    with database.writing():
        database.rows("set_fact", name="census", value="")
        standing = _standing(database, session_id)
        if standing is not None:
            _forget(database, standing.key)


def read(database: Database, store: Store, session_id: str) -> Reading:
    """What is new in one session. One that cannot be read gives a `SessionInfo` that says so."""
    standing = _standing(database, session_id)
    try:
        if standing is not None and standing.seq:
            reading = _go_on(database, store, session_id, standing)
            if reading is not None:
                return reading
        return _fold(session_id, standing, store.read(session_id))
    except SessionNotFound:
        return Reading(session_id=session_id, standing=standing)
    except StorageError as error:
        info = SessionInfo(session_id=session_id, title=str(error), status=DAMAGED)
        return Reading(session_id=session_id, standing=standing, info=info)


def note(database: Database, store: Store, batch: list[Reading]) -> list[str]:
    """Write what was read, then take the marks away. Gives the sessions that another process was faster with."""
    void = [] if not any(map(_to_write, batch)) else _write(database, batch)
    if database.path is not None and database.is_current():
        for reading in batch:
            if reading.session_id not in void and (reading.info is None or reading.info.status != DAMAGED):
                with suppress(StorageError):  # a mark too many is harmless
                    store.unmark(reading.session_id, reading.seq)
    return void


def decode_info(data: bytes) -> SessionInfo:
    try:
        return _decode_info(data)
    except msgspec.MsgspecError:
        return msgspec.convert(decode_json(data), SessionInfo)


_decode_info = msgspec.json.Decoder(SessionInfo).decode


def _standing(database: Database, session_id: str) -> Standing | None:
    rows = database.rows("standing", session_id=session_id)
    return Standing(*rows[0]) if rows else None


def _go_on(database: Database, store: Store, session_id: str, standing: Standing) -> Reading | None:
    """The rows after those in the index; None when those in the index are of another journal."""
    rows = store.read(session_id, standing.seq - 1)
    last = next(rows, None)
    if last is None or (last.seq, _bytes(last.id)) != (standing.seq, standing.row_id):
        return None
    following = next(rows, None)
    if following is None:
        return Reading(
            session_id=session_id,
            standing=standing,
            info=decode_info(standing.info),
            seq=standing.seq,
            whole=False,
        )

    def turn(turn_id: str) -> Turn | None:
        found = database.rows("turn", key=standing.key, turn_id=_bytes(turn_id))
        return Turn(turn_id=turn_id, status=found[0][0], failed=bool(found[0][1])) if found else None

    state = msgspec.convert(decode_json(standing.state), State)
    summary = Summary.resumed(decode_info(standing.info), state.summary, turn)
    rows = itertools.chain((following,), rows)
    return _fold(session_id, standing, rows, summary, Documents(state.documents), whole=False)


def _fold(
    session_id: str,
    standing: Standing | None,
    rows: Iterator[Envelope],
    summary: Summary | None = None,
    documents: Documents | None = None,
    *,
    whole: bool = True,
) -> Reading:
    summary, documents = summary or Summary(), documents or Documents()
    row: Envelope | None = None
    for row in rows:
        summary.apply(row)
        documents.apply(row)
    info = msgspec.structs.replace(summary.info(), session_id=session_id)
    kept, turns = summary.leave_out()
    return Reading(
        session_id=session_id,
        standing=standing,
        info=info,
        seq=row.seq if row else 0,
        row_id=_bytes(row.id) if row else b"",
        state=encode_json(to_json(State(kept, documents.state))),
        turns=turns,
        documents=documents.changed(),
        whole=whole,
    )


def _bytes(identifier: str) -> bytes:
    return identifier.encode("utf-8", "surrogatepass")


def _to_write(reading: Reading) -> bool:
    if reading.info is None or reading.standing is None:
        return reading.info is not None or reading.standing is not None
    if reading.info.status == DAMAGED:
        return decode_info(reading.standing.info) != reading.info
    return reading.whole or reading.seq > reading.standing.seq


def _write(database: Database, batch: list[Reading]) -> list[str]:
    void = []
    with database.writing():
        for reading in filter(_to_write, batch):
            if _standing(database, reading.session_id) != reading.standing:
                void.append(reading.session_id)
                continue
            if reading.standing is not None and reading.whole:
                _forget(database, reading.standing.key)
            if reading.info is not None:
                _put(database, reading, reading.info)
    return void


def _forget(database: Database, key: int) -> None:
    database.rows("drop_documents", first=key << PLACES, after=(key + 1) << PLACES)
    database.rows("drop_turns", key=key)
    database.rows("drop_session", key=key)


def _put(database: Database, reading: Reading, info: SessionInfo) -> None:
    key = database.value("put_session", **_columns(reading, info))
    for turn in reading.turns:
        database.rows(
            "put_turn", key=key, turn_id=_bytes(turn.turn_id), status=turn.status, failed=turn.failed
        )
    for place, document in reading.documents.items():
        rowid = (key << PLACES) + place
        if not reading.whole:
            database.rows("drop_documents", first=rowid, after=rowid + 1)
        text = cleaned(document.text)
        if text:
            values: dict[str, Any] = {"seq": document.seq, "kind": document.kind}
            values |= {"name": cleaned(document.name), "at": cleaned(document.at)}
            database.rows("put_document", rowid=rowid, text=separated(text), parts=parts(text), **values)


def _columns(reading: Reading, info: SessionInfo) -> dict[str, Any]:
    return {
        "session_id": reading.session_id,
        "seq": reading.seq,
        "row_id": reading.row_id,
        "status": cleaned(info.status),
        "turns": info.turns,
        "agent_id": cleaned(info.agent_id),
        "source": cleaned(info.source),
        "archived": info.archived,
        "pinned": info.pinned,
        "active_at": cleaned(info.active_at),
        "title": title_key(info.title),
        "tags": tags_key(info.tags),
        "info": encode_json(to_json(info)),
        "state": reading.state,
    }
