"""Listing and search are those of a fold of every session, whatever happened to the sessions and to the index."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from segue.events import Envelope
from segue.events.codec import encode_json
from segue.fold import SessionInfo, Summary
from segue.ids import new_id
from segue.index import Filters, SessionIndex
from segue.index.documents import Documents
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft

IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""A folder without the wait for a disk: durability is not what this is about."""
SESSIONS = ["a", "b", "C"]
WORDS = ["roof", "屋根", "naïve", "getUserName", "\ud83d", "tile"]

session_ids = st.sampled_from(SESSIONS)
words = st.sampled_from(WORDS)
turn_ids = st.sampled_from(["t", "u", "v"])
message_ids = st.sampled_from(["m", "n"])


def row(kind: str, **payload: Any) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(kind), st.fixed_dictionaries(payload))


reasons = st.fixed_dictionaries({"kind": st.sampled_from(["user_message", "recovery"]), "input": words})
deltas = st.fixed_dictionaries({"type": st.just("text"), "text": words})
rows = st.one_of(
    row("INVOCATION_STARTED", turn_id=turn_ids, reason=reasons),
    row("INVOCATION_STARTED", turn_id=turn_ids, reason=reasons),
    row("NO_MORE_ACTIONS", turn_id=turn_ids),
    row("TURN_SUSPENDED", turn_id=turn_ids),
    row("TURN_CANCELLED", turn_id=turn_ids),
    row("ERROR", message=words),
    row("SESSION_ERROR", message=words, code=st.sampled_from(["interrupted", ""])),
    row("HEAD_MOVED", to_seq=st.integers(0, 9)),
    row("MESSAGE_START", message_id=message_ids),
    row("MESSAGE_DELTA", message_id=message_ids, delta=deltas),
    row("MESSAGE_DELTA", message_id=message_ids, delta=deltas),
    row("MESSAGE_END", message_id=message_ids),
    row(
        "TOOL_CALL", tool_call_id=message_ids, name=words, arguments=st.dictionaries(words, words, max_size=2)
    ),
    row("TOOL_RESULT", tool_call_id=message_ids, result=st.lists(words, max_size=2)),
    row("SESSION_UPDATED", title=words),
    row("SESSION_UPDATED", archived=st.booleans(), pinned=st.booleans(), tags=st.lists(words, max_size=2)),
)


class Crash(BaseException):
    """The process is gone."""


class CrashingStore(MemoryStore):
    """Ends the indexing process at one of its looks at the store."""

    left = -1

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash

    def marked(self) -> list[str]:
        self.step()
        return super().marked()

    def unmark(self, session_id: str, seq: int) -> bool:
        self.step()
        done = super().unmark(session_id, seq)
        self.step()
        return done

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        for envelope in super().read(session_id, after_seq):
            self.step()
            yield envelope


class Indexed(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        self.store = CrashingStore()
        self.open()

    def open(self) -> None:
        self.index = SessionIndex(
            self.store, self.folder / "index.sqlite", clock=lambda: "2026-01-02T00:00:00Z"
        )

    def teardown(self) -> None:
        self.index.close()
        shutil.rmtree(self.folder)

    @rule(session_id=session_ids, added=st.lists(rows, min_size=1, max_size=6))
    def append(self, session_id: str, added: list[tuple[str, Any]]) -> None:
        self.store.create(session_id)
        lease = self.store.acquire(session_id, holder="test")
        now = f"2026-01-01T00:{self.store.last_seq(session_id):06d}Z"
        drafts = [Draft(new_id("evt"), "test", kind, encode_json(payload), now) for kind, payload in added]
        self.store.append(session_id, drafts, lease=lease)
        self.store.release(lease)

    @rule(session_id=session_ids)
    def delete(self, session_id: str) -> None:
        if self.store.exists(session_id):
            self.store.delete(session_id)

    @rule(step=st.integers(1, 12))
    def crash_while_indexing(self, step: int) -> None:
        self.store.left = step
        try:
            self.index.listed(Filters())
        except Crash:
            self.index.close()
            self.open()
        self.store.left = -1

    @rule()
    def open_another(self) -> None:
        self.open()

    @rule(damage=st.sampled_from([b"", b"no database", b"\0" * 9000]), name=st.sampled_from(["", "-wal"]))
    def damage(self, damage: bytes, name: str) -> None:
        self.index.close()
        (self.folder / f"index.sqlite{name}").write_bytes(damage)
        self.open()

    @rule(keep=st.integers(0, 40_000))
    def truncate(self, keep: int) -> None:
        self.index.close()
        path = self.folder / "index.sqlite"
        if path.exists():
            path.write_bytes(path.read_bytes()[:keep])
        self.open()

    @rule()
    def remove_while_open(self) -> None:
        (self.folder / "index.sqlite").unlink(missing_ok=True)

    @invariant()
    def listing_is_the_fold_of_every_session(self) -> None:
        infos = [self.folded(session_id)[0] for session_id in sorted(self.store.sessions())]
        expected = sorted(infos, key=lambda info: info.active_at, reverse=True)
        assert self.index.listed(Filters()) == expected

    @invariant()
    def search_finds_what_the_documents_say(self) -> None:
        for word in WORDS[:4]:
            saying = {name for name in self.store.sessions() if word in self.folded(name)[1]}
            assert {found.session.session_id for found in self.index.search(f'"{word}"', Filters())} == saying

    def folded(self, session_id: str) -> tuple[SessionInfo, str]:
        """What the journal says: the info, interrupted where it says running, and all texts."""
        summary, documents = Summary(), Documents()
        for envelope in MemoryStore.read(self.store, session_id):
            summary.apply(envelope)
            documents.apply(envelope)
        info = msgspec.structs.replace(summary.info(), session_id=session_id)
        if info.status == "running":
            info = msgspec.structs.replace(info, status="interrupted")
        return info, "\n".join(document.text for document in documents.changed().values())


TestIndexed = Indexed.TestCase
TestIndexed.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
