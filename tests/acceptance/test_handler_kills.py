"""A chat killed with SIGKILL at each append of its turns, and finished later: B013, B014 and B016 anywhere."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from oracle import violations

from segue import drive
from segue.errors import Suspended
from segue.events import Envelope
from segue.fold import STITCH, provider_messages
from segue.fold.conversation import fold
from segue.session.db import SessionDB, default_db
from segue.session.decisions import approve, open_waits, resolve
from segue.session.recovery import needs_recovery
from tests.programs import mortal

WORDS = ["write", "write", "thank you"]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of all the processes that died."""
    folder = tmp_path_factory.mktemp("homes")
    program = [sys.executable, mortal.__file__, str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = [folder / name for name in done.stdout.split()]
    assert len(found) > 40
    return found


def finish(db: SessionDB) -> None:
    """Whatever there is goes on; what a person must decide is decided; then what was not said yet is said."""
    while True:
        turns = db.turns("s").all if db.store.exists("s") else []
        said = [{"input": WORDS[len(turns)]}] if len(turns) < len(WORDS) else []
        if turns and turns[-1].status in ("suspended", "interrupted", "running"):
            _decide(db)
            said = [{}]
        if not said:
            return
        try:
            drive(mortal.app, "s", db=db, **said[0]).run()
        except Suspended:
            continue


def _decide(db: SessionDB) -> None:
    journal = db.journal("s")
    for wait in open_waits(journal):
        if wait.kind == "approval":
            approve(journal, wait.id)
        else:
            resolve(journal, wait.id, "skip")


def test_a_chat_that_is_killed_anywhere_loses_nothing_and_does_nothing_twice(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off = 0
    for home in homes:
        monkeypatch.setenv("SEGUE_HOME", str(home))
        db = default_db()
        before = list(db.read("s")) if db.store.exists("s") else []
        finish(db)
        rows = list(db.read("s"))
        assert rows[: len(before)] == before
        check(home, rows, db)
        cut_off += check_cut_off(home, before, rows)
        db.close()
    assert cut_off > 0


def check(home: Path, rows: list[Envelope], db: SessionDB) -> None:
    messages = fold(rows).messages()
    spoken = [message["content"] for message in messages if message["role"] == "user"]
    assert [text for text in spoken if text != STITCH] == WORDS, home
    assert violations(provider_messages(messages)) == [], home
    assert not needs_recovery(db.journal("s")), home
    effects = Counter((home / "effects").read_text().split("\n"))
    made = Counter(row.payload["name"] for row in rows if row.type == "TOOL_CALL")
    assert effects["look"] <= made["look"], home
    assert effects["send Ada"] <= made["send"], home
    paid = sum(count for line, count in effects.items() if line.startswith("paid"))
    completed = sum(_is_paid(row) for row in rows)
    assert completed <= paid <= completed + 1, home


def _is_paid(row: Envelope) -> bool:
    payload: dict[str, Any] = row.payload
    return row.type == "CALL_ENDED" and payload["status"] == "completed" and "usage" in payload


def check_cut_off(home: Path, before: list[Envelope], rows: list[Envelope]) -> int:
    """A message that the kill left open gets nothing more; what was shown of it stays, and it is said to be cut off."""
    ended = {row.payload["message_id"] for row in before if row.type == "MESSAGE_END"}
    began = [row.payload["message_id"] for row in before if row.type == "MESSAGE_START"]
    left = [message_id for message_id in began if message_id not in ended]
    later = [row for row in rows[len(before) :] if row.payload.get("message_id") in left]
    assert later == [], home
    assert [message["content"] for message in fold(rows).messages()].count(STITCH) == len(left), home
    return len(left)
