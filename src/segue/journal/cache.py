"""The fold cache: what a view was after some row, so that a cold open reads only the rows that came since.

Derived, and believed only as far as it proves itself. A view's file holds one record a line: a checksum, and as JSON
`[chain, after, seq, id of the row at seq, what changed in the view from after to seq]`. A record fits on any state from
`after` to `seq` of its chain, so several processes may write. A chain begins at the first row; who has another chain
than the file gives up what it knows, since the journal may have been repaired meanwhile. A record that does not fit, or
whose checksum is wrong, is skipped. The checksum covers session, view and `VERSION`: a record of another session, or of
another version of the fold, has a wrong one. And the journal must have the row that the last record names.
"""

from __future__ import annotations

import logging
import secrets
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from segue.errors import SegueError
from segue.events import json_text
from segue.events.envelope import Envelope
from segue.stores.protocol import Store

VERSION = 3
"""Of what rows fold to, and of how that is saved: to be raised when either changes."""
ROWS = 250
"""How many rows a record stands for, at least; so a cold open may have to fold about as many."""

HEAD = 64
"""Bytes that a file is known by: they hold the first record's checksum and chain."""

log = logging.getLogger("segue.journal")


class Cached(Protocol):
    """A view that can be saved, in structs of the class's type `CHANGES`."""

    CHANGES: ClassVar[Any]

    def changes(self, *, whole: bool = False) -> Any:
        """What changed since this was last called, or the view was restored; `whole`: since the beginning."""
        ...

    @classmethod
    def restored(cls, changes: Any) -> Any:
        """The view that gave these changes, all of them from its beginning on, at least one."""
        ...


T = TypeVar("T")


class Record(msgspec.Struct, Generic[T], array_like=True, gc=False):
    chain: str
    after: int
    seq: int
    row_id: str
    changes: T


class Cache:
    """One view's file, as far as this process knows it. Not thread-safe."""

    def __init__(self, store: Store, session_id: str, cls: type[Cached]) -> None:
        self._store, self._session_id, self._cls = store, session_id, cls
        self._name = cls.__name__.lower()
        self._seed = zlib.crc32(f"{VERSION} {self._name} {session_id}".encode())
        self._form: Any = Record[cls.CHANGES]  # type: ignore[name-defined]
        self._decoder: msgspec.json.Decoder[Record[Any]] = msgspec.json.Decoder(self._form)
        self._lines: list[bytes] = []
        self._head: bytes | None = b""
        """How the file begins, as far as is known; None when it is to be replaced."""
        self._whole = False
        """Whether the next record holds everything, and replaces the file."""
        self._chain = ""
        self.seq = 0
        """The row after which the view was saved last, or will be by the next `write`."""
        self.row_id = ""

    def load(self, last: int) -> Any:
        """The view after row `seq`: the last one that is saved, and not after row `last`."""
        data = self._store.read_cache(self._session_id, self._name)
        self._head = data[:HEAD]
        try:
            changes = self._changes(data, last)
            return self._cls.restored(changes) if changes else self._cls()
        except Exception as error:  # whatever is in that file, the session is opened without it
            log.warning("the fold cache of session %s is of no use: %r", self._session_id, error)
            self.forget()
            return self._cls()

    def _changes(self, data: bytes, last: int) -> list[Any]:
        """Those that fit on each other, from the beginning on."""
        changes, useful = [], 0
        for line in _lines(data):
            record = self._read(line)
            if record is None or not record.after <= self.seq < record.seq:
                continue
            if record.chain != (self._chain or record.chain):
                continue
            if record.seq > last:  # the journal was longer once
                self._whole = True
                break
            changes.append(record.changes)
            useful += len(line) + 1
            self._chain, self.seq, self.row_id = record.chain, record.seq, record.row_id
        self._whole |= useful * 2 < len(data)
        return changes

    def forget(self) -> None:
        """What was saved is not of this journal, or its head moved: begin anew."""
        self._lines, self._whole, self._chain, self.seq, self.row_id = [], True, "", 0, ""

    def due(self, seq: int) -> bool:
        """Whether it is time to save the view after this row."""
        return seq - self.seq >= ROWS

    def note(self, view: Cached, row: Envelope) -> None:
        """Save the view, which is what it was after this row, with the next `write`."""
        whole, after = self._whole, 0 if self._whole else self.seq
        self._chain = self._chain if after else secrets.token_hex(4)
        self.seq, self.row_id = row.seq, row.id
        record = Record(self._chain, after, row.seq, row.id, view.changes(whole=whole))
        try:
            line = self._line(record)
        except SegueError as error:
            log.warning("session %s cannot be saved to its fold cache: %s", self._session_id, error)
            self._whole = True
            return
        if whole:
            self._lines, self._head, self._whole = [], None, False
        self._lines.append(line)

    def write(self) -> bool:
        """Write what was noted. That it fails is no error: the rows are there.

        False when somebody else began the file anew: then what is known here may be of other rows than there are now.
        """
        if not self._lines:
            return True
        data, self._lines = b"".join(self._lines), []
        try:
            known = self._store.write_cache(self._session_id, self._name, data, after=self._head)
        except SegueError:
            return True
        self._head = self._head or data[:HEAD]
        return known

    def _line(self, record: Record[Any]) -> bytes:
        try:
            body = msgspec.json.encode(record)
        except (msgspec.MsgspecError, ValueError, OverflowError):  # lone surrogates, integers of many digits
            body = json_text.write(msgspec.to_builtins(record), depth=2 * json_text.MAX_DEPTH)
        return b"%08x %b\n" % (zlib.crc32(body, self._seed), body)

    def _read(self, line: memoryview) -> Record[Any] | None:
        """None when the checksum is wrong."""
        body = line[9:]
        if line[:9] != b"%08x " % zlib.crc32(body, self._seed):
            return None
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError:
            slowly: Record[Any] = msgspec.convert(json_text.read(bytes(body)), self._form)
            return slowly


def _lines(data: bytes) -> Iterator[memoryview]:
    """All whole lines, without their ends, and not copied: they can be long."""
    start, view = 0, memoryview(data)
    while (end := data.find(b"\n", start)) >= 0:
        yield view[start:end]
        start = end + 1


def cache_of(store: Store, session_id: str, cls: type) -> Cache | None:
    """Its file, if views of this class can be saved."""
    return Cache(store, session_id, cls) if hasattr(cls, "CHANGES") else None
