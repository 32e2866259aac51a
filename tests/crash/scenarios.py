"""The turns and calls that are crashed, each with the sessions that it finds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pygit2.enums import ObjectType

from segue.events.facts import SessionUpdated
from segue.models.scripted import Scripted
from segue.session.context import session_context
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.git import GitStore, repository
from segue.stores.git.layout import SessionPaths
from segue.stores.git.objects import Objects
from segue.stores.git.packing import MOST_IN_SAMPLE, SAMPLE
from segue.stores.git.tail import SEGMENT_BYTES

PROGRAMS = Path(__file__).parent / "programs"
PLANTS = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("planted/*/sitecustomize.py")))
FOREIGN = ("SEGUE_", "OPENAI_", "ANTHROPIC_", "PYTHON")
REPLIES: list[Any] = [
    "a gull with one leg",
    {"text": "A gull with one leg stole the bread. Nobody followed it.", "pace": 0.06},
]


@dataclass(frozen=True)
class Scenario:
    name: str
    arguments: tuple[str, ...]
    """What the interpreter is given."""
    text: str
    """What is piped in."""
    prepare: Callable[[Path], None]
    """Makes the home that the run finds."""
    session: str
    """The session that the run writes rows of, and that prints them."""
    made: dict[str, str] = field(default_factory=dict)
    """Line of output -> the session that must be there from then on."""
    deleted: dict[str, str] = field(default_factory=dict)
    """Line of output -> the session that must be gone from then on."""
    titles: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Line of output -> a session and the title that it must have from then on."""
    kept: tuple[str, ...] = ()
    """Sessions that are there before and must stay."""
    damage: Callable[[Path], None] | None = None
    """What was done to the session before the run, which repairs it; only kills are tried of such a one."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, *self.arguments]


def environment(home: Path, plant: str = "") -> dict[str, str]:
    """That of the program: its own home, nothing of ours; with a planted bug's folder on the path, if any."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    ours = {"SEGUE_HOME": str(home), "HOME": str(home.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    planted = {"PYTHONPATH": str(Path(__file__).parent / "planted" / plant)} if plant else {}
    return clean | ours | planted


def write_script(folder: Path) -> None:
    (folder / "replies.json").write_text(json.dumps(REPLIES), encoding="utf-8")


def working_folder(folder: Path) -> Path:
    """A folder to run in, with the programs and the model's script."""
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    write_script(folder)
    return folder


def _run(function: str) -> tuple[str, ...]:
    options = ("--session", "s1", "--model", "scripted:replies.json", "--output-format", "stream-json")
    return ("-m", "segue", "run", f"crashing:{function}", "-", *options)


def _nothing(home: Path) -> None:
    home.mkdir()


def _long_session(home: Path) -> None:
    """Two turns, then so much that the open segment is full after two or three more appends."""
    db = _opened(home)
    _turns(db, "s1", 2)
    segment = SessionPaths(home / "sessions", "s1").segment(1)
    while (room := SEGMENT_BYTES - segment.stat().st_size) > 2_000:
        db.journal("s1").append(SessionUpdated(tags=["x" * min(room - 1_500, 200_000)]))
    db.store.commit("s1", "prepared")
    _close_indexed(db)


def _uncommitted_session(home: Path) -> None:
    """Two turns of which nothing is committed, beside so many loose objects that the next commit packs."""
    db = _opened(home, commits=False)
    _turns(db, "s1", 2)
    _close_indexed(db)
    git = SessionPaths(home / "sessions", "s1").git
    repository.prepare(git)
    objects, number = Objects(git / "objects", {}), 0
    while len(list((git / "objects").glob(f"{SAMPLE}/*"))) < MOST_IN_SAMPLE:
        number += 1
        _write_sampled(objects, f"loose {number}".encode())


def _write_sampled(objects: Objects, data: bytes) -> None:
    """Write only what falls into the folder whose fill is looked at."""
    if hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest().startswith(SAMPLE):
        objects.write(ObjectType.BLOB, data)


def _three_sessions(home: Path) -> None:
    db = _opened(home, commits=False)
    for session_id in ("kept", "gone"):
        _turns(db, session_id, 1)
    _close_indexed(db)


def _changed_sessions(home: Path) -> None:
    """Two that are indexed, of which one has changed since then, and one that never was indexed."""
    db = _opened(home)
    for session_id in ("kept", "changed"):
        _turns(db, session_id, 1)
    db.list_sessions()
    for session_id in ("changed", "new"):
        _turns(db, session_id, 1)
    db.close()


def _committed_session(home: Path) -> None:
    db = _opened(home)
    _turns(db, "s1", 2)
    assert db.store.drain_commits(30)
    _close_indexed(db)


def _damaged(home: Path) -> None:
    """A row in the middle is overwritten; the commits have it."""
    segment = SessionPaths(home / "sessions", "s1").segment(1)
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[4] = b"x" * (len(lines[4]) - 1) + b"\n"
    segment.write_bytes(b"".join(lines))


def _opened(home: Path, *, commits: bool = True) -> SessionDB:
    return SessionDB(GitStore(home / "sessions", commits=commits), index=home / "index.sqlite")


def _close_indexed(db: SessionDB) -> None:
    """With the index up to date: what the run changes has to be noticed."""
    db.list_sessions()
    db.close()


def _turns(db: SessionDB, session_id: str, count: int) -> None:
    for number in range(count):
        with session_context(session_id, db=db, runtime=Runtime(Scripted([f"answer {number}"]))) as session:
            assert session.runtime is not None
            session.runtime.exec(f"question {number}")


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("create", _run("report"), "harbour", _nothing, "s1"),
        Scenario("continue", _run("report"), "harbour", _long_session, "s1", kept=("s1",)),
        Scenario("commit", _run("note"), "remember", _uncommitted_session, "s1", kept=("s1",)),
        Scenario(
            "api",
            ("api.py",),
            "",
            _three_sessions,
            "",
            kept=("kept",),
            made={"created made": "made"},
            deleted={"deleted gone": "gone"},
            titles={"renamed kept": ("kept", "Renamed"), "created made": ("made", "Made")},
        ),
        Scenario(
            "repair",
            ("mend.py",),
            "",
            _committed_session,
            "s1",
            kept=("s1",),
            damage=_damaged,
        ),
        Scenario("index", ("look.py",), "", _changed_sessions, "", kept=("kept", "changed", "new")),
    )
}
POWERED = tuple(name for name, scenario in SCENARIOS.items() if scenario.damage is None)
"""Those that power is lost in."""
