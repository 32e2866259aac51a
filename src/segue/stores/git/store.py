"""`GitStore`: sessions as folders under one root, from any number of processes of one machine."""

from __future__ import annotations

import importlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from segue.errors import SessionNotFound, StorageError
from segue.events.envelope import Envelope
from segue.stores.admission import check_cache, check_digest, check_folder, no_session
from segue.stores.git import blobs, caches, layout, marks
from segue.stores.git.committer import Committer
from segue.stores.git.faults import naming
from segue.stores.git.forks import watch_forks
from segue.stores.git.identity import check_identity
from segue.stores.git.layout import SessionPaths
from segue.stores.git.lease import current_holder
from segue.stores.git.leases import Leases
from segue.stores.git.problems import Problem
from segue.stores.git.removal import remove
from segue.stores.git.segments import read_batches, read_lines
from segue.stores.git.session import GitSession
from segue.stores.git.tail import SEGMENT_BYTES
from segue.stores.git.watching import watch_rows
from segue.stores.git.writer import Request, Writer
from segue.stores.ids import check_session_id
from segue.stores.protocol import Draft, Lease, Stop

if TYPE_CHECKING:
    from segue.stores.git.repair import Report

OPEN_SESSIONS = 64
"""Sessions whose files stay open, four descriptors each, the most recently used ones."""
CLOSE_SECONDS = 5.0


class GitStore:
    """See `segue.stores.protocol.Store`; files as in `segue.stores.git.layout`. Making it does no I/O."""

    def __init__(self, root: Path | str, *, segment_bytes: int = SEGMENT_BYTES, commits: bool = True) -> None:
        self.root = Path(root).absolute()
        self.segment_bytes = segment_bytes
        self._commits = commits
        self._closed = False
        self._sessions: dict[str, GitSession] = {}
        self._begin()
        watch_forks(self)

    def create(self, session_id: str) -> bool:
        paths = SessionPaths(self.root, check_session_id(session_id))
        self._check_open()
        with naming(self.root, "create a session in"):
            return layout.create_session(paths)

    def exists(self, session_id: str) -> bool:
        paths = SessionPaths(self.root, check_session_id(session_id))
        with naming(paths.folder, "look at"):
            return paths.exists()

    def sessions(self) -> list[str]:
        with naming(self.root, "list"):
            return layout.list_sessions(self.root)

    def delete(self, session_id: str) -> None:
        lease = self.acquire(session_id, holder="delete")
        session = self._session(session_id)
        try:
            with naming(session.paths.folder, "delete"):
                remove(session.paths)
        finally:
            with naming(session.paths.folder, "unlock"):
                self._leases.abandon(lease)
        with self._lock:
            self._sessions.pop(session_id, None)
        session.bell.ring()
        session.close_if_idle()

    def marked(self) -> list[str]:
        with naming(self.root, "list the change marks of"):
            return marks.marked(self.root / marks.FOLDER)

    def unmark(self, session_id: str, seq: int) -> bool:
        paths = SessionPaths(self.root, check_session_id(session_id))
        try:
            with naming(paths.mark, "remove"):
                return self._unmark(paths, seq)
        except StorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in marks.READ_ONLY:
                return False
            raise

    def census(self) -> str:
        with naming(self.root, "look at"):
            return layout.census(self.root)

    def submit(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> Future[list[int]]:
        check_session_id(session_id)
        self._check_open()
        request = Request(drafts, lease, expected_seq)
        self._writer.submit(session_id, request)
        return request.future

    def append(
        self,
        session_id: str,
        drafts: Sequence[Draft],
        *,
        lease: Lease | None = None,
        expected_seq: int | None = None,
    ) -> list[int]:
        return self.submit(session_id, drafts, lease=lease, expected_seq=expected_seq).result()

    def last_seq(self, session_id: str) -> int:
        session = self._session(session_id)
        with naming(session.paths.history, "read"):
            return session.position().seq

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        session = self._session(session_id)
        with naming(session.paths.history, "read"):
            batches = read_batches(session.paths, session.position(), after_seq)
            return itertools.chain.from_iterable(_named(session.paths, batches))

    def read_lines(self, session_id: str, after_seq: int = 0) -> Iterator[bytes]:
        session = self._session(session_id)
        with naming(session.paths.history, "read"):
            return _named(session.paths, read_lines(session.paths, session.position(), after_seq))

    def watch(
        self, session_id: str, after_seq: int = 0, *, stop: threading.Event | None = None
    ) -> Iterator[list[Envelope]]:
        session = self._session(session_id)
        if self._closed:
            session.close()
        return watch_rows(session, after_seq, stop or Stop())

    def acquire(self, session_id: str, *, holder: str, wait: float = 0.0) -> Lease:
        paths = self._session(session_id).paths
        self._check_open()
        with naming(paths.turn_lock, "lock"):
            return self._leases.acquire(paths, holder, wait)

    def release(self, lease: Lease) -> None:
        with naming(self.root / lease.session_id, "unlock"):
            self._leases.release(lease)

    def holder(self, session_id: str) -> str | None:
        paths = self._session(session_id).paths
        with naming(paths.turn_lock, "look at"):
            return current_holder(paths)

    def put_blob(self, session_id: str, folder: str, data: bytes) -> str:
        paths = self._session(session_id).paths
        check_folder(folder)
        self._check_open()
        with naming(paths.folder / folder, "write to"):
            return blobs.put(paths, folder, data)

    def get_blob(self, session_id: str, folder: str, digest: str) -> bytes:
        paths = self._session(session_id).paths
        with naming(paths.folder / check_folder(folder), "read"):
            return blobs.get(paths, folder, check_digest(digest))

    def read_cache(self, session_id: str, name: str) -> bytes:
        return caches.read(self._session(session_id).paths, check_cache(name))

    def write_cache(self, session_id: str, name: str, data: bytes, *, after: bytes | None) -> bool:
        paths = self._session(session_id).paths
        check_cache(name)
        return self._closed or caches.write(paths, name, data, after)

    def commit(self, session_id: str, message: str) -> None:
        session = self._sessions.get(session_id) or self._session(
            session_id
        )  # the committer looks whether it is there
        if self._commits and not self._closed:
            self._committer.queue(session, message)

    def verify(self, session_id: str, progress: Callable[[int], None] = lambda size: None) -> list[Problem]:
        """What is wrong with the session, without changing anything; `progress` is told how many bytes were read.

        Reads everything once. Problems that are notes are what a crash leaves; the next open puts them right.
        """
        paths = self._folder(session_id)
        with naming(paths.folder, "verify"):
            found: list[Problem] = _module("verify").verify(paths, progress)
            return found

    def repair(self, session_id: str, progress: Callable[[int], None] = lambda size: None) -> Report:
        """Put right what `verify` finds; a copy of what is changed is kept under `<root>/.backups`.

        Damaged rows are restored from the commits, and those that nobody has any more become ROW_LOST rows. Raises
        `SessionBusy` while a turn runs, `StorageError` for what is not damage (a renamed folder, a newer format).
        """
        paths = self._folder(session_id)
        self._check_open()
        with naming(paths.folder, "repair"):
            lease = self._leases.acquire(paths, "repair", 0.0)
            try:
                report: Report = _module("repair").repair(paths, progress)
            finally:
                self._leases.release(lease)
        if report.backup:
            self.commit(session_id, "repair")
            self.drain_commits(CLOSE_SECONDS)
        return report

    def unknown_folders(self) -> list[Path]:
        """Folders with a journal whose names are no session's: no listing shows them."""
        with naming(self.root, "list"):
            return layout.unknown_folders(self.root)

    def size(self, session_id: str) -> int:
        """Bytes that `verify` reads of the session, about."""
        paths = self._folder(session_id)
        with naming(paths.folder, "look at"):
            size: int = _module("verify").size_of(paths)
            return size

    def drain_commits(self, seconds: float) -> bool:
        """Wait until everything asked for is committed. False when that took too long."""
        return self._committer.drain(seconds)

    def reports(self, session_id: str) -> list[str]:
        """What was healed in this session since the store was opened here, one sentence each."""
        return list(self._session(session_id).reports)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._writer.stop()
        for session in list(self._sessions.values()):
            session.close()
        self._committer.stop(CLOSE_SECONDS)
        self._leases.release_all()
        with self._lock:
            for session in self._sessions.values():
                session.close_if_idle()

    def forget_after_fork(self) -> None:
        """In a forked child: no thread of the parent exists here, and none of its locks is ours."""
        for session in self._sessions.values():
            session.forget_after_fork()
        self._begin()

    def _begin(self) -> None:
        self._recent: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._leases = Leases()
        self._writer = Writer(self._write)
        self._committer = Committer()

    def _write(self, session_id: str, requests: list[Request]) -> None:
        session = self._sessions.get(session_id)  # a cached one finds out by itself when it is gone
        (session or self._session(session_id)).append(requests)
        self._keep_few_open(session_id)

    def _unmark(self, paths: SessionPaths, seq: int) -> bool:
        try:
            return self._session(paths.session_id).unmark(seq)
        except (SessionNotFound, FileNotFoundError):
            return not paths.mark.exists() or marks.remove_unless(paths.mark, paths.exists)

    def _session(self, session_id: str) -> GitSession:
        """The session, existing. Raises `InvalidSessionId` before any I/O, `SessionNotFound`."""
        session = self._sessions.get(check_session_id(session_id))
        paths = session.paths if session else SessionPaths(self.root, session_id)
        with naming(paths.folder, "open"):
            if not paths.exists():
                raise no_session(session_id)
            if session is None:
                check_identity(paths)
        if session is None:
            with self._lock:
                session = self._sessions.setdefault(session_id, GitSession(paths, self.segment_bytes))
        return session

    def _folder(self, session_id: str) -> SessionPaths:
        """The paths of a session that exists, damaged or not."""
        paths = SessionPaths(self.root, check_session_id(session_id))
        with naming(paths.folder, "open"):
            if not paths.exists():
                raise no_session(session_id)
        return paths

    def _keep_few_open(self, session_id: str) -> None:
        """Note that the session was written now, and close the files of the one that was not for longest."""
        with self._lock:
            self._recent[session_id] = None
            self._recent.move_to_end(session_id)
            oldest = self._recent.popitem(last=False)[0] if len(self._recent) > OPEN_SESSIONS else ""
        if oldest in self._sessions:
            self._sessions[oldest].close_if_idle()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the store of {self.root} is closed")


def _module(name: str) -> Any:
    """What reads commits loads libgit2, which takes 0.1 s: only when it is needed."""
    return importlib.import_module(f"segue.stores.git.{name}")


Item = TypeVar("Item")


def _named(paths: SessionPaths, items: Iterator[Item]) -> Iterator[Item]:
    with naming(paths.history, "read"):
        yield from items
