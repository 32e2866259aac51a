"""Lists and searches the sessions, which brings the index up to date. Begins when its input ends."""

from __future__ import annotations

import sys

from segue import default_db

sys.stdin.read()
db = default_db()
print(len(db.list_sessions(without_turns=True)), "sessions", flush=True)
print(len(db.search_sessions("question")), "found", flush=True)
