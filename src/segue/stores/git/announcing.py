"""The kernel tells when a session's files change: inotify, with one descriptor and one thread for a whole process.

The session's folder is watched, not `acknowledged` itself: so a file that is put in its place is noticed too. Where
there is no inotify, or no more of it (it is limited per user), whoever watches has to poll. And it does not tell
what other machines write to a shared file system.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path
from typing import Any

from segue.stores.git import acknowledged
from segue.stores.git.bell import Bell
from segue.stores.git.forks import watch_forks
from segue.threads import background_thread

try:
    import inotify_simple
except ImportError:  # this system has none
    inotify_simple = None

log = logging.getLogger("segue.stores.git")


class Announcer:
    """Thread-safe. Thread and descriptor exist while somebody watches."""

    def __init__(self) -> None:
        self._inotify: Any = None
        self._begin()
        watch_forks(self)

    def announce(self, folder: Path, bell: Bell) -> int | None:
        """Ring the bell whenever something may have been published in a session's folder.

        Gives a number to cancel it with, or None when the kernel will not tell.
        """
        with self._lock:
            try:
                number = self._watch(folder)
            except (OSError, RuntimeError) as error:  # RuntimeError: no more threads
                log.info("%s is watched by polling: %s", folder, error)
                return None
            self._bells.setdefault(number, []).append(bell)
            return number

    def announces(self, number: int) -> bool:
        """Whether it still does. Not once the folder is gone."""
        return number in self._bells

    def cancel(self, number: int, bell: Bell) -> None:
        with self._lock:
            bells = self._bells.get(number, [])
            if bell in bells:
                bells.remove(bell)
            if number in self._bells and not bells:
                del self._bells[number]
                with contextlib.suppress(OSError):
                    self._inotify.rm_watch(number)  # the kernel confirms it, which wakes the thread

    def forget_after_fork(self) -> None:
        """In a forked child: the descriptor is the parent's, and what it tells."""
        if self._inotify is not None:
            self._inotify.close()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a forgotten watch may be collected, and cancelled, under it
        self._inotify = None
        self._bells: dict[int, list[Bell]] = {}

    def _watch(self, folder: Path) -> int:
        if self._inotify is not None:
            return int(self._inotify.add_watch(folder, _mask()))
        if inotify_simple is None:
            raise OSError("there is no inotify here")
        inotify = inotify_simple.INotify()
        try:
            number = int(inotify.add_watch(folder, _mask()))
            background_thread(lambda: self._run(inotify), "segue-watch").start()
        except BaseException:
            inotify.close()
            raise
        self._inotify = inotify
        return number

    def _run(self, inotify: Any) -> None:
        while True:
            events = inotify.read()
            with self._lock:
                for event in events:
                    self._hear(event)
                if not self._bells:
                    self._inotify = None
                    inotify.close()
                    return

    def _hear(self, event: Any) -> None:
        flags = inotify_simple.flags
        if event.mask & flags.Q_OVERFLOW:
            bells = [bell for bells in self._bells.values() for bell in bells]
        elif event.mask & flags.IGNORED:
            bells = self._bells.pop(event.wd, [])
        else:
            bells = self._bells.get(event.wd, []) if event.name in ("", acknowledged.NAME) else []
        for bell in list(bells):
            bell.ring()


def _mask() -> int:
    flags = inotify_simple.flags
    itself = flags.MOVE_SELF | flags.DELETE_SELF
    return int(flags.MODIFY | flags.MOVED_TO | flags.CREATE | flags.DELETE | itself | flags.ONLYDIR)


announcer = Announcer()
