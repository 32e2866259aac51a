"""Listing and search over 10,000 sessions beside bare queries of SQLite for the same rows, and the cost of keeping up.

Takes about a minute and 150 MB; `--quick` has 1,000 sessions.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Row, medians, scratch, seconds
from index_work import CJK, COMMON, PHRASE, RARE, fill, grow, open_home
from rich.console import Console
from rich.progress import Progress

from segue.session.db import SessionDB

BUDGET = 5.0
FLAT = 1.2
NEWEST = 50
FOUND = 10
LISTED = "SELECT info FROM session ORDER BY active_at DESC, session_id LIMIT ?"
MATCHED = """
SELECT info, snippet(document, 0, char(2), char(3), '…', 16), document.seq, kind, name, at
FROM document JOIN session ON session.key = document.rowid >> 33
WHERE document MATCH ? ORDER BY document.rank LIMIT ?
"""


def run(quick: bool) -> list[Row]:
    with scratch() as home:
        sessions, turns = (1_000, 1_000) if quick else (10_000, 10_000)
        with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("making sessions", total=sessions)
            fill(home, sessions, advance=lambda: progress.advance(task))
        db = open_home(home)
        try:
            rows = [_made_anew(db, home, sessions)]
            rows += _queries(db, home, sessions, 15 if quick else 41)
            rows.append(_keeping_up(db, turns, 15 if quick else 41))
        finally:
            db.close()
        return rows


def _queries(db: SessionDB, home: Path, sessions: int, rounds: int) -> list[Row]:
    bare = sqlite3.connect(home / "index.sqlite")

    def matched(match: str) -> Callable[[], Any]:
        return lambda: bare.execute(MATCHED, (match, FOUND)).fetchall()

    def searched(query: str) -> Callable[[], Any]:
        return lambda: db.search_sessions(query, limit=FOUND)

    of = f"of {sessions:,} sessions"
    rows = [
        _beside(
            f"list the newest {NEWEST} {of}",
            lambda: db.list_sessions(limit=NEWEST),
            lambda: bare.execute(LISTED, (NEWEST,)).fetchall(),
            rounds,
        ),
        _beside(f"search a rare word {of}", searched(f'"{RARE}"'), matched(f'"{RARE}"'), rounds),
        _beside(
            f"search a word that all have, {of}", searched(f'"{COMMON}"'), matched(f'"{COMMON}"'), rounds // 3
        ),
        _beside(f"search a phrase {of}", searched(f'"{PHRASE}"'), matched(f'"{PHRASE}"'), rounds // 3),
        _beside(f"search CJK {of}", searched(CJK), matched('"屋\x1f根"'), rounds),
    ]
    bare.close()
    return rows


def _beside(name: str, ours: Callable[[], Any], bare: Callable[[], Any], rounds: int) -> Row:
    assert ours(), name
    assert bare(), name
    our_seconds, bare_seconds = medians(ours, bare, rounds)
    detail = (
        f"{our_seconds * 1e3:.2f} ms beside {bare_seconds * 1e3:.2f} ms of a bare SQLite query for such rows"
    )
    return Row(f"index: {name}", our_seconds / bare_seconds, BUDGET, detail)


def _made_anew(db: SessionDB, home: Path, sessions: int) -> Row:
    lines = [
        line
        for path in (home / "sessions").glob("*/history/*.jsonl")
        for line in path.read_bytes().splitlines()
    ]
    parsing = seconds(lambda: [json.loads(line) for line in lines])
    making = seconds(db.reindex)
    size = (home / "index.sqlite").stat().st_size / sum(map(len, lines))
    detail = (
        f"{making:.1f} s for {len(lines):,} rows beside json.loads of them; it has {size:.2f} of their bytes"
    )
    return Row(f"index: made anew for {sessions:,} sessions", making / parsing, None, detail)


def _keeping_up(db: SessionDB, turns: int, rounds: int) -> Row:
    """Listing after one more turn: in a long session, beside a short one."""
    chance = random.Random(2)
    grow(db, "short", 10, chance)
    grow(db, "long", turns, chance)
    db.list_sessions(limit=1)
    times: dict[str, list[float]] = {"short": [], "long": []}
    for _ in range(rounds):
        for name, taken in times.items():
            grow(db, name, 1, chance)
            taken.append(seconds(lambda: db.list_sessions(limit=1)))
    long, short = (sorted(times[name])[rounds // 2] for name in ("long", "short"))
    detail = f"{long * 1e3:.1f} ms after a turn of a session of {turns:,}, beside {short * 1e3:.1f} ms of one of 10"
    return Row("index: listing after one more turn", long / short, FLAT, detail)
