"""The reference store: one process, nothing on disk. What it does is what every store does."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from segue.errors import BlobNotFound, SessionBusy, StorageError
from segue.events.codec import decode_row, row_bytes
from segue.events.envelope import Envelope
from segue.stores.admission import (
    check_cache,
    check_digest,
    check_drafts,
    check_epoch,
    check_folder,
    check_seq,
    no_session,
)
from segue.stores.ids import check_session_id
from segue.stores.protocol import Draft, Lease, Stop

BATCH = 256
"""Rows that a watcher is given at once, at most."""
LOOK_AT_STOP = 0.05
"""Seconds within which a watcher notices a `stop` that cannot wake it."""


class _Session:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        """Row n is at n - 1, as it would be on disk: what is read is what was written, never a shared object.
        """
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.caches: dict[str, bytes] = {}
        self.commits: list[str] = []
        self.epoch = 0
        self.token = ""
        self.holder: str | None = None


class MemoryStore:
    """Durable as long as the process. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._marked: set[str] = set()
        self._comings_and_goings = 0
        self._changed = threading.Condition()
        self._closed = False

    def create(self, session_id: str) -> bool:
        check_session_id(session_id)
        with self._changed:
            if session_id in self._sessions:
                return False
            self._sessions[session_id] = _Session()
            self._marked.add(session_id)
            self._comings_and_goings += 1
            return True

    def exists(self, session_id: str) -> bool:
        return check_session_id(session_id) in self._sessions

    def sessions(self) -> list[str]:
        with self._changed:
            return sorted(self._sessions)

    def delete(self, session_id: str) -> None:
        with self._changed:
            session = self._session(session_id)
            if session.holder is not None:
                raise _busy(session_id, session.holder)
            del self._sessions[session_id]
            self._marked.add(session_id)
            self._comings_and_goings += 1
            self._changed.notify_all()

    def marked(self) -> list[str]:
        with self._changed:
            return sorted(self._marked)

    def unmark(self, session_id: str, seq: int) -> bool:
        check_session_id(session_id)
        with self._changed:
            session = self._sessions.get(session_id)
            if session is not None and len(session.lines) != seq:
                return False
            self._marked.discard(session_id)
            return True

    def census(self) -> str:
        return str(self._comings_and_goings)

    def submit(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Future[list[int]]:
        check_session_id(session_id)
        future: Future[list[int]] = Future()
        try:
            future.set_result(self.append(session_id, drafts, lease=lease, expected_seq=expected_seq))
        except Exception as error:
            future.set_exception(error)
        return future

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> list[int]:
        check_session_id(session_id)
        with self._changed:
            session = self._session(session_id)
            self._check_open()
            check_drafts(session_id, drafts, lease)
            if lease is not None:
                check_epoch(lease, session.epoch, session.token)
            check_seq(session_id, len(session.lines), expected_seq)
            first = len(session.lines) + 1
            self._marked.add(session_id)
            session.lines += [row_bytes(session_id, seq, draft) for seq, draft in enumerate(drafts, first)]
            self._changed.notify_all()
            return list(range(first, first + len(drafts)))

    def last_seq(self, session_id: str) -> int:
        return len(self._session(session_id).lines)

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        return map(decode_row, self.read_lines(session_id, after_seq))

    def read_lines(self, session_id: str, after_seq: int = 0) -> Iterator[bytes]:
        return iter(self._session(session_id).lines[after_seq:])

    def watch(
        self, session_id: str, after_seq: int = 0, *, stop: threading.Event | None = None
    ) -> Iterator[list[Envelope]]:
        return self._watch(self._session(session_id), session_id, after_seq, stop or Stop())

    def _watch(
        self, session: _Session, session_id: str, after_seq: int, stop: threading.Event
    ) -> Iterator[list[Envelope]]:
        with stop.waking(self._wake) if isinstance(stop, Stop) else contextlib.nullcontext():
            while lines := self._next_lines(session, session_id, after_seq, stop):
                after_seq += len(lines)
                yield [decode_row(line) for line in lines]

    def _next_lines(
        self, session: _Session, session_id: str, after_seq: int, stop: threading.Event
    ) -> list[bytes]:
        """Those after `after_seq`, once there are some; none when the watch is over."""
        with self._changed:
            while not stop.is_set() and not self._closed:
                if self._session(session_id) is not session:
                    raise no_session(session_id)
                if lines := session.lines[after_seq : after_seq + BATCH]:
                    return lines
                self._changed.wait(None if isinstance(stop, Stop) else LOOK_AT_STOP)
        return []

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def acquire(self, session_id: str, *, holder: str, wait: float = 0.0) -> Lease:
        deadline = time.monotonic() + wait
        with self._changed:
            while (session := self._session(session_id)).holder is not None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise _busy(session_id, session.holder)
                self._changed.wait(remaining)
            self._check_open()
            session.epoch, session.token, session.holder = session.epoch + 1, secrets.token_hex(16), holder
            return Lease(session_id, session.epoch, session.token)

    def release(self, lease: Lease) -> None:
        with self._changed:
            session = self._sessions.get(lease.session_id)
            if session is not None and (session.epoch, session.token) == (lease.epoch, lease.token):
                session.token, session.holder = "", None
                self._changed.notify_all()

    def holder(self, session_id: str) -> str | None:
        return self._session(session_id).holder

    def put_blob(self, session_id: str, folder: str, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._session(session_id).blobs[check_folder(folder), digest] = bytes(data)
        return digest

    def get_blob(self, session_id: str, folder: str, digest: str) -> bytes:
        session = self._session(session_id)
        try:
            return session.blobs[check_folder(folder), check_digest(digest)]
        except KeyError:
            raise BlobNotFound(f"{session_id} has no blob {digest} in {folder}") from None

    def read_cache(self, session_id: str, name: str) -> bytes:
        return self._session(session_id).caches.get(check_cache(name), b"")

    def write_cache(self, session_id: str, name: str, data: bytes, *, after: bytes | None) -> bool:
        with self._changed:
            caches = self._session(session_id).caches
            known = caches.get(check_cache(name), b"")
            if after is not None and not (known.startswith(after) if after else known == b""):
                return False
            caches[name] = data if after is None else known + data
            return True

    def commit(self, session_id: str, message: str) -> None:
        self._session(session_id).commits.append(message)

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.get(check_session_id(session_id))
        if session is None:
            raise no_session(session_id)
        return session

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")


def _busy(session_id: str, holder: str) -> SessionBusy:
    return SessionBusy(f"session {session_id} is busy: {holder} has its turn", holder=holder)
