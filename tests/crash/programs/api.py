"""Creates, renames and deletes sessions, and says what it has done. Begins when its input ends."""

from __future__ import annotations

import sys

from segue import default_db

sys.stdin.read()
db = default_db()
db.create_session("made", title="Made")
print("created made", flush=True)
db.update_session("kept", title="Renamed")
print("renamed kept", flush=True)
db.delete_session("gone")
print("deleted gone", flush=True)
