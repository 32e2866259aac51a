"""The thread that commits, off everybody's path. Several commits asked for meanwhile become one."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections import OrderedDict

from segue.errors import SegueError, SessionNotFound
from segue.stores.git.session import GitSession
from segue.threads import background_thread

log = logging.getLogger("segue.stores.git")


class Committer:
    """Thread-safe. A commit that fails is logged, and its rows are part of the session's next one."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[GitSession, list[str]]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._working = False
        self._stopped = False

    def queue(self, session: GitSession, message: str) -> None:
        with self._changed:
            if self._stopped:
                return
            self._waiting.setdefault(session.paths.session_id, (session, []))[1].append(message)
            self._start()
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait for the thread to be done with what waits."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._working, seconds)

    def stop(self, seconds: float) -> None:
        """Commit what waits, for at most that long; the rest is healed by the next commit."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            alive = self._thread is not None
        if alive:
            self.drain(seconds)
        while not alive and self._waiting and time.monotonic() < deadline:
            self._commit_next()
        if self._waiting:
            log.warning(
                "%d sessions were not committed in time; their next commit makes up for it",
                len(self._waiting),
            )

    def _start(self) -> None:
        if self._thread is None:
            thread = background_thread(self._run, "segue-commit")
            try:
                thread.start()
            except RuntimeError:  # the interpreter is going down: `stop` does the work
                return
            self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if not self._waiting:
                    return
            self._commit_next()

    def _commit_next(self) -> None:
        with self._changed:
            session_id, (session, messages) = self._waiting.popitem(last=False)
            self._working = True
        try:
            # libgit2 takes 0.1 s to load: only who commits pays for it, and only here
            importlib.import_module("segue.stores.git.commits").commit_session(session, messages)
        except SessionNotFound:
            pass
        except (SegueError, OSError) as error:
            log.warning("session %s could not be committed: %s", session_id, error)
        except Exception:
            log.exception("session %s could not be committed", session_id)
        finally:
            with self._changed:
                self._working = False
                self._changed.notify_all()
