"""The folds that a journal keeps up to date: each row is read once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeVar, cast

from segue.events.envelope import Envelope
from segue.events.facts import HeadMoved
from segue.fold.path import active_path
from segue.stores.protocol import Store

BATCH = 256
"""Rows that are folded at a time."""


class View(Protocol):
    """A fold that is kept up to date: made without arguments, then given every row once, in order.

    A class that says `ACTIVE_PATH = True` is given the rows of the active path only: at a HEAD_MOVED a new
    instance takes its place. Others see every row and make of HEAD_MOVED what they will.
    """

    def apply(self, envelope: Envelope) -> Any: ...


V = TypeVar("V", bound=View)


class Views:
    """Thread-safe by `lock`, which a reader that iterates over a view holds meanwhile."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.lock = threading.RLock()
        self._store, self._session_id = store, session_id
        self._views: dict[type[View], View] = {}
        self._folded = 0

    def get(self, cls: type[V]) -> V:
        """The fold of all rows visible now; the same instance each time, but for deletions and moves of the head."""
        with self.lock:
            self._catch_up()
            if cls not in self._views:
                last = self._folded if self._views else self._last_seq()  # as far as the others are
                self._views[cls] = self._fold(cls, last)
                self._folded = last
            return cast(V, self._views[cls])

    def _last_seq(self) -> int:
        return self._store.last_seq(self._session_id)

    def _read(self, after_seq: int, last: int) -> Iterator[Envelope]:
        return islice(self._store.read(self._session_id, after_seq), last - after_seq)

    def _catch_up(self) -> None:
        last = self._last_seq()
        if last < self._folded:  # the session was deleted and made again
            self._views, self._folded = {}, 0
        if last == self._folded or not self._views:
            return
        try:
            for rows in batches(self._read(self._folded, last)):
                for cls, view in self._views.items():
                    self._views[cls] = self._extended(cls, view, rows)
                self._folded = rows[-1].seq
        except BaseException:  # one view has the row, another has not: fold again from the start
            self._views, self._folded = {}, 0
            raise

    def _extended(self, cls: type[V], view: V, rows: list[Envelope]) -> V:
        if follows_the_head(cls) and any(row.type == HeadMoved.TYPE for row in rows):
            return self._fold(cls, rows[-1].seq)
        for row in rows:
            view.apply(row)
        return view

    def _fold(self, cls: type[V], last: int) -> V:
        """A new view of the rows up to `last`."""
        view = cls()
        rows: Iterable[Envelope] = self._read(0, last)
        for envelope in active_path(rows) if follows_the_head(cls) else rows:
            view.apply(envelope)
        return view


def follows_the_head(cls: type[View]) -> bool:
    return getattr(cls, "ACTIVE_PATH", False)


def batches(rows: Iterator[Envelope]) -> Iterator[list[Envelope]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
