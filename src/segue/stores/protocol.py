"""Where journals live: the seam every store implements. `stores/memory.py` beside it is the reference.

Promises, checked by `segue.testing.conformance` on every store:

1.  an append is all or nothing; seq is 1, 2, 3 and so on without a gap
2.  what an append returned for is durable
3.  a stale lease or a wrong `expected_seq` writes nothing (`StaleWriter`)
4.  readers never see a torn or unsynced row
5.  a watcher sees every row once, in order, from any process
6.  session ids are validated before any I/O (`InvalidSessionId`); no two sessions share storage
7.  nothing is deleted without `delete`
8.  a torn tail is dropped and reported; damage in the middle is refused (`CorruptJournal`), never skipped
9.  what is written is read back to the byte
10. the cost of an append does not grow with the journal
11. a session that changed, also one that was made or deleted, has a change mark before anybody can see the change,
    durably, until `unmark`; a mark without a change is harmless

Not promised: which of two racing appends comes first; that a blob is listed.

All methods are synchronous and thread-safe. Every one that is given a session, but `create`, `exists` and `unmark`,
raises `SessionNotFound` when it was never created (`submit` through its future), and any may raise `StorageError`,
which names path and cause.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from segue.events.envelope import Envelope


class Draft(msgspec.Struct, frozen=True):
    """A row that has no position yet: all of an envelope but `session_id` and `seq`.

    The payload is encoded JSON.
    """

    id: str
    deployment_id: str
    type: str
    payload: bytes
    created_at: str


class Lease(msgspec.Struct, frozen=True):
    """The right to write one session's turn rows, until it is released or its holder dies."""

    session_id: str
    epoch: int
    """Grows with every acquisition; a store refuses a lease whose epoch is not the current one."""
    token: str
    """Random, names this acquisition."""


class Stop(threading.Event):
    """Ends a watch, or several. Setting it wakes them at once, wherever they wait."""

    def __init__(self) -> None:
        super().__init__()
        self._wakers: list[Callable[[], None]] = []

    def set(self) -> None:
        super().set()
        for wake in list(self._wakers):
            wake()

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """For stores: call `wake` whenever this is set, inside the with-block."""
        self._wakers.append(wake)
        try:
            yield
        finally:
            self._wakers.remove(wake)


class Store(Protocol):
    def create(self, session_id: str) -> bool:
        """Make the session's storage, empty. False when it existed already."""
        ...

    def exists(self, session_id: str) -> bool: ...

    def sessions(self) -> list[str]:
        """Ids of all sessions, sorted."""
        ...

    def delete(self, session_id: str) -> None:
        """Erase the session. The only way anything is ever deleted."""
        ...

    def marked(self) -> list[str]:
        """Ids of the sessions with a change mark, sorted; some of them may not exist any more.

        Its cost grows with their number, not with that of all sessions.
        """
        ...

    def unmark(self, session_id: str, seq: int) -> bool:
        """Take the change mark away, for whoever noted all rows up to `seq` elsewhere, durably.

        False, and the mark stays, when the last row is another one, or on its way, or when the marks are read-only.
        The mark of a session that does not exist is taken away whatever `seq` is.
        """
        ...

    def census(self) -> str:
        """A text that is another one after sessions came or went, also by hand; empty when that cannot be told.

        Asking is cheap: while it stays the same there is no need to compare `sessions` with what one knows.
        """
        ...

    def submit(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Future[list[int]]:
        """Queue an append. The future gives the rows' seqs once they are durable and visible, or the refusal.

        Appends submitted by one thread are written in that order. The future is running from the start: what
        was submitted cannot be cancelled. `expected_seq` is the seq of the last row
        the caller knows; another one refuses the append.
        """
        ...

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> list[int]:
        """`submit` and wait."""
        ...

    def last_seq(self, session_id: str) -> int:
        """Seq of the last visible row, 0 for an empty journal."""
        ...

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        """Visible rows after `after_seq`, in order.

        Reading near the end costs in proportion to what is read.
        """
        ...

    def read_lines(self, session_id: str, after_seq: int = 0) -> Iterator[bytes]:
        """The same rows as the lines they are kept as, without their end: payloads to the byte."""
        ...

    def watch(
        self, session_id: str, after_seq: int = 0, *, stop: threading.Event | None = None
    ) -> Iterator[list[Envelope]]:
        """Batches of rows after `after_seq`, now and as they become visible, until `stop` is set or the store closed.

        A `Stop` ends the wait for rows at once, any other event within 50 ms. There is no queue: a slow reader costs no
        memory, and finds the rows when it asks for them. Raises `SessionNotFound` when the session is deleted, also
        when one under the same id was made since.
        """
        ...

    def acquire(self, session_id: str, *, holder: str, wait: float = 0.0) -> Lease:
        """Take the turn lease. `holder` is shown to those who find it busy; `wait` is in seconds.

        Raises `SessionBusy` naming the holder. A living local holder is never timed out, even when stopped; a
        dead one's lease is free at once.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Give the lease back. Releasing one that is no longer current does nothing."""
        ...

    def holder(self, session_id: str) -> str | None:
        """Who has the turn lease now (any process), or None."""
        ...

    def put_blob(self, session_id: str, folder: str, data: bytes) -> str:
        """Keep bytes under their SHA-256 in `context` or `files`. Returns the digest, hexadecimal.

        Same bytes, no-op.
        """
        ...

    def get_blob(self, session_id: str, folder: str, digest: str) -> bytes:
        """Raises `BlobNotFound`."""
        ...

    def read_cache(self, session_id: str, name: str) -> bytes:
        """What `write_cache` wrote under that name, as far as it is there and can be read.

        Not a promise but a convenience: any of it may be missing, old or damaged at any time.
        """
        ...

    def write_cache(self, session_id: str, name: str, data: bytes, *, after: bytes | None) -> bool:
        """Keep derived bytes beside the session: None in place of what is there, else added to it, if it begins with
        `after` (or is empty, when that is).

        False when it does not begin so, and then nothing is written. Not durable, part of no commit, gone with the
        session; a write that fails is no error, and True. `name` is of lower-case letters, digits and underscores.
        """
        ...

    def commit(self, session_id: str, message: str) -> None:
        """Note that a turn settled or suspended. Derived history (git) is made off the caller's path."""
        ...

    def close(self) -> None:
        """Finish what was submitted, drain commits for at most 5 s, free everything. Idempotent."""
        ...
