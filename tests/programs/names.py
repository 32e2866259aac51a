"""Another process that makes, renames or lists sessions of the home that SEGUE_HOME names.

rename <prefix> <count>    make `<prefix>-<number>` and rename it twice; a line `<id> <title>` once that is durable
list                       list and search all sessions, again and again; a line each time
"""

from __future__ import annotations

import itertools
import sys

from segue import default_db, session_context


def rename(prefix: str, count: str) -> None:
    for number in range(int(count)):
        with session_context(session_id=f"{prefix}-{number}", source="test") as handle:
            for title in ("a first name", f"name {number} by {prefix}"):
                handle.db.update_session(handle.session_id, title=title)
        print(f"{handle.session_id} {title}", flush=True)


def list_() -> None:
    for number in itertools.count():
        found = default_db().search_sessions("name", limit=20)
        print(number, len(default_db().list_sessions(without_turns=True)), len(found), flush=True)


{"rename": rename, "list": list_}[sys.argv[1]](*sys.argv[2:])
