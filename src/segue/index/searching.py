"""Full-text search: the sessions that say it, each with its best hit."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from segue.fold.summary import SessionInfo
from segue.index.database import Database
from segue.index.indexing import decode_info
from segue.index.words import BEGIN, END, Query, shown

SNIPPET = 160
"""Characters of a snippet, at most."""
LEAD = 40
"""Characters before what was found, where a snippet has to be cut."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One place in a session that says it."""

    seq: int
    """Of the row that the message, call or result begins with."""
    kind: str
    """message, call, tool call, result, question, answer, error, title or tags."""
    name: str
    """A message's role, or the name of what was called; may be empty."""
    at: str
    snippet: str
    """The text around what was found, on one line."""
    marks: list[tuple[int, int]]
    """Where in the snippet it is: begin and end of each piece."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A session that says it."""

    session: SessionInfo
    hit: Hit
    """The best place."""
    count: int
    """How many messages, calls and results of the session say it."""


def search(
    database: Database, query: Query, condition: str, values: dict[str, Any], limit: int, now: str
) -> list[Found]:
    """The best sessions first: by how well their best hit matches, recent ones before old ones."""
    sessions = database.rows("found", condition, match=query.match, limit=limit, now=now, **values)
    return [
        Found(session=decode_info(info), hit=_hit(database, query, best), count=count)
        for best, count, info in sessions
    ]


def _hit(database: Database, query: Query, rowid: int) -> Hit:
    marked, seq, kind, name, at = database.rows("hit", match=query.match, rowid=rowid)[0]
    text = shown(marked) if BEGIN in marked else _around(database, query, rowid)
    snippet, marks = _unmarked(text)
    return Hit(seq=seq, kind=kind, name=name, at=at, snippet=snippet, marks=marks)


def _around(database: Database, query: Query, rowid: int) -> str:
    """What was found is the part of a name: the text around the first one, marked."""
    text = shown(database.value("text", rowid=rowid))
    found = [match.span() for words in query.wanted if (match := _anywhere(words).search(text))]
    begin, end = min(found, default=(0, 0))
    before, after = text[max(0, begin - LEAD) : begin], text[end : end + 2 * LEAD]
    if begin > LEAD:
        before = "…" + before[before.find(" ") + 1 :]
    if len(text) > end + 2 * LEAD:
        after = after[: after.rfind(" ") if " " in after else None] + "…"
    return f"{before}{BEGIN}{text[begin:end]}{END}{after}"


def _anywhere(words: str) -> re.Pattern[str]:
    return re.compile(r"[\W_]*".join(re.findall(r"[^\W_]+", words)), re.IGNORECASE)


def _unmarked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """One line, not too long, and where its marks were."""
    line = " ".join(text.split())
    first = line.find(BEGIN)
    if first > SNIPPET // 2:
        line = "…" + line[first - LEAD :]
    pieces, marks, length = [], [], 0
    for number, piece in enumerate(line.replace(END, BEGIN).split(BEGIN)):
        piece = piece[: SNIPPET - length]
        if number % 2 and piece:
            marks.append((length, length + len(piece)))
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces), marks
