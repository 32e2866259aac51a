"""One view of a journal, from its first fold on: out of the cache where it can be saved, row by row otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from segue.events.envelope import Envelope
from segue.events.facts import HeadMoved
from segue.fold.path import active_path
from segue.journal.cache import cache_of
from segue.stores.protocol import Store

BATCH = 256
"""Rows that are folded at a time."""
ENDINGS = frozenset({"NO_MORE_ACTIONS", "TURN_CANCELLED", "TURN_SUSPENDED", "SESSION_ERROR"})
"""A turn has just ended after a row of these types: there is least to save then."""


class View(Protocol):
    """A fold that is kept up to date: made without arguments, then given every row once, in order.

    A class that says `ACTIVE_PATH = True` is given the rows of the active path only: at a HEAD_MOVED a new
    instance takes its place. Others see every row and make of HEAD_MOVED what they will. One with `CHANGES` is saved
    now and then: see `segue.journal.cache.Cached`. One with `extend` is given many rows at once.
    """

    def apply(self, envelope: Envelope) -> Any: ...


V = TypeVar("V", bound=View)


class Kept(Generic[V]):
    """`view` is the fold of the rows up to the one whose id is `row_id`; `last` at first. Saved now and then, if the
    journal has no more rows than that (`saves`)."""

    def __init__(self, store: Store, session_id: str, cls: type[V], last: int, *, saves: bool = True) -> None:
        self._store, self._session_id, self._cls = store, session_id, cls
        self._follows = getattr(cls, "ACTIVE_PATH", False)
        self._cache = cache_of(store, session_id, cls)
        self.row_id = ""
        self.outdated = False
        """Whether others saved another chain than is known here, so that the view has to be made anew."""
        self.view, rows = self._begin(last)
        if not saves:
            self._cache = None
        for batch in batches(rows):
            if self._is_moved(batch):
                self._follow(last)
                break
            self._take(batch)
        self._save()

    def extend(self, rows: list[Envelope]) -> None:
        """The rows that come next, at least one."""
        if self._is_moved(rows):
            self._follow(rows[-1].seq)
        else:
            self._take(rows)
        self._save()

    def _read(self, after_seq: int, last: int) -> Iterator[Envelope]:
        return islice(self._store.read(self._session_id, after_seq), last - after_seq)

    def _begin(self, last: int) -> tuple[V, Iterator[Envelope]]:
        """The view as it is in the cache, if the journal has the row that was saved last; and the rows after it."""
        cache = self._cache
        if cache is not None:
            view = cache.load(last)
            rows = self._read(max(cache.seq - 1, 0), last)
            if cache.seq == 0 or has_id(next(rows, None), cache.row_id):
                self.row_id = cache.row_id
                return view, rows
            cache.forget()
        return self._cls(), self._read(0, last)

    def _is_moved(self, rows: list[Envelope]) -> bool:
        return self._follows and any(row.type == HeadMoved.TYPE for row in rows)

    def _follow(self, last: int) -> None:
        """The head moved: fold the active path from its start."""
        self.view = self._cls()
        path = active_path(self._read(0, last))
        self._apply(path)
        if self._cache is not None:
            self._cache.forget()
            if self._cache.due(last):
                self._cache.note(self.view, path[-1])  # type: ignore[arg-type]

    def _take(self, rows: list[Envelope]) -> None:
        cache = self._cache
        if cache is not None and cache.due(rows[-1].seq):
            end = max((at for at, row in enumerate(rows, 1) if row.type in ENDINGS), default=0)
            if end and cache.due(rows[end - 1].seq):
                self._apply(rows[:end])
                cache.note(self.view, rows[end - 1])  # type: ignore[arg-type]
                rows = rows[end:]
        self._apply(rows)

    def _apply(self, rows: list[Envelope]) -> None:
        extend = getattr(self.view, "extend", None)
        if extend is not None:
            extend(rows)
        else:
            for row in rows:
                self.view.apply(row)
        if rows:
            self.row_id = rows[-1].id

    def _save(self) -> None:
        if self._cache is not None and not self._cache.write():
            self.outdated = True


def has_id(row: Envelope | None, row_id: str) -> bool:
    return row is not None and row.id == row_id


def batches(rows: Iterator[Envelope]) -> Iterator[list[Envelope]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
