"""What must hold after a crash, whatever it interrupted. `python -m tests.crash.checking` is a process that checks.

It reads one JSON `Case` a line and answers each with the JSON list of what is wrong. Being a process of its own, it
runs the same product code as the crashed program, planted bugs included.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pygit2

from segue.errors import SegueError
from segue.events.envelope import Envelope
from segue.fold.conversation import Conversation
from segue.fold.summary import SessionInfo, Summary
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.session.sent import read_sent
from segue.stores.git import GitStore, restarts
from segue.stores.git.layout import SessionPaths
from segue.stores.git.problems import damage_in
from segue.testing.validity import problems

_boot_id = restarts.boot_id
ANSWER = "still here"
QUERIES = ("harbour", "gull", "question", "Renamed", "still here", "remember")
Row = tuple[int, str]
"""Seq and id."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One crashed home, and what is known of it."""

    home: str
    session: str = ""
    """The session that was written to; empty when it was only created, renamed or deleted."""
    shown: list[Row] = []
    """Rows of that session that somebody had seen."""
    written: list[tuple[int, str, bool]] | None = None
    """All rows that had been handed to the system, in order, and whether an append ends with each. None: not known."""
    present: list[str] = []
    """Sessions that must be there."""
    absent: list[str] = []
    """Sessions that must not be there."""
    titles: dict[str, str] = {}
    """Session -> its title."""
    repairs: bool = False
    """Whether a repair was interrupted, so that it has to be begun again."""
    power_lost: bool = False
    """Whether the machine went down, not only the process."""


def check(case: Case) -> list[str]:
    """What is wrong, one sentence each. The home is used: sessions go on in it."""
    try:
        return [*_problems(case)]
    except Exception as error:  # whatever it is, it is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno} {where.name})"]


def _problems(case: Case) -> Iterator[str]:
    restarts.boot_id = (lambda: "after the power loss") if case.power_lost else _boot_id
    root = Path(case.home) / "sessions"
    db = SessionDB(GitStore(root), index=Path(case.home) / "index.sqlite")
    try:
        if case.repairs:
            yield from _repaired(db, case.session)
        yield from _listing(db)
        yield from _searching(db, root)
        yield from (f"{name} is lost" for name in case.present if not db.store.exists(name))
        yield from (f"{name} is back" for name in case.absent if db.store.exists(name))
        for session_id, title in case.titles.items():
            info = db.get_session(session_id)
            if info is None or info.title != title:
                yield f"the title of {session_id} is {info and info.title!r}, not {title!r}"
        before = _rows(db, case.session) if case.session else []
        yield from _rows_shown(case, before)
        yield from _rows_whole(case, before)
        sessions = {*db.store.sessions(), *([case.session] if case.session else [])}
        for session_id in sorted(sessions):
            yield from _goes_on(db, root, session_id)
        if case.session and _rows(db, case.session)[: len(before)] != before:
            yield "going on changed rows that were there"
        yield from _listing(db)
        yield from _searching(db, root)
    finally:
        db.close()


def _repaired(db: SessionDB, session_id: str) -> Iterator[str]:
    """Beginning the repair again mends everything, and then there is nothing to mend."""
    assert isinstance(db.store, GitStore)
    db.store.repair(session_id)
    db.reindex_session(session_id)
    yield from (f"not repaired: {problem.describe()}" for problem in damage_in(db.store.verify(session_id)))


def _rows(db: SessionDB, session_id: str) -> list[Row]:
    if not db.store.exists(session_id):
        return []
    return [(row.seq, row.id) for row in db.store.read(session_id)]


def _rows_shown(case: Case, rows: list[Row]) -> Iterator[str]:
    if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
        yield f"seqs are not gapless: {[seq for seq, _ in rows]}"
    there = dict(rows)
    for seq, row_id in case.shown:
        if there.get(seq) != row_id:
            yield f"row {seq} had been shown as {row_id} and is {there.get(seq, 'lost')}"
            return


def _rows_whole(case: Case, rows: list[Row]) -> Iterator[str]:
    """Whole appends, in the order in which they were written, and nothing else."""
    if case.written is None:
        return
    expected = [(seq, row_id) for seq, row_id, _ in case.written][: len(rows)]
    if rows != expected:
        yield f"{len(rows)} rows are there that are not the first {len(rows)} of those written"
    elif rows and not case.written[len(rows) - 1][2]:
        yield f"an append is there in part: row {len(rows)} is not its last"


def _listing(db: SessionDB) -> Iterator[str]:
    """The listing says what a fresh fold of each session says."""
    listed = {info.session_id: info for info in db.list_sessions(without_turns=True)}
    fresh = {session_id: _fresh(db, session_id) for session_id in db.store.sessions()}
    for session_id in sorted({*listed, *fresh}):
        info = fresh.get(session_id)
        if session_id not in listed and info is not None and not info.events:
            continue  # made, but not yet said to be: either way is right
        if listed.get(session_id) != info:
            yield f"the listing has {listed.get(session_id)} for {info}"


def _searching(db: SessionDB, root: Path) -> Iterator[str]:
    """The index finds what one that is made anew finds."""
    anew = SessionDB(GitStore(root, commits=False))
    try:
        for query in QUERIES:
            found, expected = (
                {one.session.session_id: one.count for one in some.search_sessions(query)}
                for some in (db, anew)
            )
            if found != expected:
                yield f"the index finds {found}, not {expected}, for {query!r}"
    finally:
        anew.close()


def _fresh(db: SessionDB, session_id: str) -> SessionInfo:
    summary = Summary()
    for row in db.store.read(session_id):
        summary.apply(row)
    info = summary.info()
    if info.status == "running" and db.store.holder(session_id) is None:
        info = msgspec.structs.replace(info, status="interrupted")
    return msgspec.structs.replace(info, session_id=session_id)


def _goes_on(db: SessionDB, root: Path, session_id: str) -> Iterator[str]:
    with session_context(session_id, db=db, runtime=Runtime(Scripted([ANSWER]))) as session:
        assert session.runtime is not None
        if session.runtime.exec("Are you there?") != ANSWER:
            yield f"{session_id} does not go on"
    rows = list(db.store.read(session_id))
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        yield f"seqs of {session_id} are not gapless after the next turn"
    if len({row.id for row in rows}) != len(rows):
        yield f"a row of {session_id} is there twice"
    statuses = [turn.status for turn in db.turns(session_id).all]
    if "running" in statuses or statuses[-1:] != ["completed"]:
        yield f"turns of {session_id} are {statuses}"
    yield from problems(db.journal(session_id).view(Conversation).messages())
    if not db.store.drain_commits(20):
        yield f"{session_id} is not committed after 20 s"
    yield from _context(db, session_id, rows)
    yield from _history(SessionPaths(root, session_id), rows)


def _context(db: SessionDB, session_id: str, rows: list[Envelope]) -> Iterator[str]:
    """What each model call was sent can be read."""
    for row in rows:
        digest = row.payload.get("context")
        if digest:
            try:
                read_sent(db.store, session_id, digest)
            except SegueError as error:
                yield f"row {row.seq} of {session_id} names what is not there: {error}"


def _history(paths: SessionPaths, rows: list[Envelope]) -> Iterator[str]:
    """`git fsck` is content, and the history says what the journal says and holds every blob it names."""
    command = ["git", "-C", str(paths.folder), "fsck", "--full", "--strict", "--no-progress", "--no-dangling"]
    checked = subprocess.run(command, capture_output=True, text=True)
    if checked.returncode or checked.stdout or checked.stderr:
        yield f"git fsck of {paths.session_id}: {checked.stdout}{checked.stderr}".strip()
        return
    files = dict(_files(pygit2.Repository(str(paths.git)).revparse_single("HEAD^{tree}"), ""))
    history = b"".join(files[path] for path in sorted(files) if path.startswith("history/"))
    journal = b"".join(paths.segment(first).read_bytes() for first in paths.segments())
    if history != journal:
        yield f"the history of {paths.session_id} is not its journal"
    for row in rows:
        digest = row.payload.get("context")
        while digest:
            content = next((data for path, data in files.items() if path.endswith(digest)), None)
            if content is None:
                yield f"the history of {paths.session_id} lacks the blob {digest} that row {row.seq} needs"
                break
            digest = json.loads(content)["parent"]


def _files(tree: pygit2.Tree, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in tree:
        if isinstance(entry, pygit2.Tree):
            yield from _files(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}", entry.data


def main() -> None:
    logging.disable(logging.WARNING)  # healing says what it does
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(check(msgspec.json.decode(line, type=Case))).decode() + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
