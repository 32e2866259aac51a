"""The folds that a journal keeps up to date: each new row is read once for all of them."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any, cast

from segue.journal.kept import Kept, V, View, batches, has_id
from segue.stores.protocol import Store


class Views:
    """Thread-safe by `lock`, which a reader that iterates over a view holds meanwhile."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.lock = threading.RLock()
        self._store, self._session_id = store, session_id
        self._kept: dict[type[View], Kept[Any]] = {}
        self._folded = 0
        self._row_id = ""

    def get(self, cls: type[V]) -> V:
        """The fold of all rows visible now; the same instance each time, unless the head moved or rows were lost."""
        with self.lock:
            self._catch_up()
            if cls not in self._kept or self._kept[cls].outdated:
                # as far as the others are
                last = self._folded if self._kept else self._store.last_seq(self._session_id)
                kept = Kept(self._store, self._session_id, cls, last)
                self._kept[cls], self._folded, self._row_id = kept, last, kept.row_id
            return cast(V, self._kept[cls].view)

    def before(self, cls: type[V], seq: int) -> V:
        """The fold of the rows before that one; the caller's own."""
        return Kept(self._store, self._session_id, cls, seq - 1, saves=False).view

    def _catch_up(self) -> None:
        last = self._store.last_seq(self._session_id)
        if last < self._folded:  # the session was deleted and made again
            self._forget()
        if last == self._folded or not self._kept:
            return
        try:
            self._extend(last)
        except BaseException:  # one view has the row, another has not: fold again from the start
            self._forget()
            raise

    def _extend(self, last: int) -> None:
        start = max(self._folded - 1, 0)
        rows = islice(self._store.read(self._session_id, start), last - start)
        if self._folded and not has_id(next(rows, None), self._row_id):  # made again, and longer than before
            self._forget()
            return
        for batch in batches(rows):
            for kept in self._kept.values():
                kept.extend(batch)
            self._folded, self._row_id = batch[-1].seq, batch[-1].id

    def _forget(self) -> None:
        self._kept, self._folded, self._row_id = {}, 0, ""
