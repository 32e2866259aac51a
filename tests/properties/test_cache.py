"""A view out of the fold cache is the view that its rows fold to: for every journal, wherever it was saved."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import any_journal, envelopes

from segue.errors import InvalidEvent
from segue.events import EVENT_TYPES, Envelope
from segue.events.codec import decode_row, encode_row
from segue.fold import CallGraph, Conversation, Submissions, Turns, Waits
from segue.fold.path import active_path
from segue.journal import Journal
from segue.stores.memory import MemoryStore

CACHED: list[type[Any]] = [Conversation, CallGraph, Turns, Waits, Submissions]
every_view = pytest.mark.parametrize("cls", CACHED)


class Rows(MemoryStore):
    """A store whose rows are put there as they are: a journal would refuse most of these."""

    def __init__(self) -> None:
        super().__init__()
        self.create("ses")

    def put(self, rows: list[bytes]) -> None:
        self._session("ses").lines.extend(rows)

    def cut(self, length: int) -> None:
        del self._session("ses").lines[length:]

    @property
    def caches(self) -> dict[str, bytes]:
        return self._session("ses").caches


def recordable(journal: list[Envelope]) -> list[bytes]:
    """The journal as a store has it, without the rows that no store has."""
    lines = []
    for row in journal:
        try:
            if isinstance(row.payload, dict):
                lines.append(encode_row(msgspec.structs.replace(row, seq=len(lines) + 1)))
        except InvalidEvent:
            continue
    return lines


def heads_moved(journal: list[Envelope], moves: list[tuple[int, int]]) -> list[Envelope]:
    """The journal with some moves of the head in it, each to one of the rows before it."""
    rows = [(row.type, row.payload) for row in journal]
    for place, to_seq in moves:
        rows.insert(place, ("HEAD_MOVED", {"to_seq": min(to_seq, place)}))
    return envelopes(rows)


moves = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=3)
stored = st.builds(heads_moved, any_journal, moves).map(recordable)


@pytest.fixture(autouse=True, scope="module")
def saved_after_every_row() -> Iterator[None]:
    with mock.patch("segue.journal.cache.ROWS", 1), mock.patch("segue.journal.kept.ENDINGS", EVENT_TYPES):
        yield


def everything(view: Any) -> str:
    """All that a view holds, as text: NaN equals itself then."""
    view = copy.deepcopy(view)
    if isinstance(view, Waits):
        pending = {node: kept.pending_tool_calls for node, kept in view._conversations.items()}
        return repr((view.open, pending, msgspec.structs.replace(view.changes(), conversations=[])))
    shown = [view.changes(whole=True)]
    if isinstance(view, Conversation):
        shown += [
            view.messages(),
            view.pending_tool_calls,
            view.diagnostics,
            len(view),
            view.answered_length(),
        ]
        shown += [{key: call.entry.index for key, call in sorted(view._history.latest.items())}]
    if isinstance(view, CallGraph):
        shown += [view._children, view.running()]
    return repr(shown)


def uncached(store: Rows, cls: type[Any]) -> Any:
    rows = list(store.read("ses"))
    view = cls()
    for row in active_path(rows) if cls is Conversation else rows:
        view.apply(row)
    return view


def opened(store: Rows, cls: type[Any]) -> Any:
    return Journal(store, "ses").view(cls)


@every_view
@given(journal=stored, cuts=st.lists(st.integers(0, 40), max_size=4))
def test_a_cold_view_is_the_fold_wherever_the_view_was_saved(
    cls: type[Any], journal: list[bytes], cuts: list[int]
) -> None:
    store = Rows()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(journal)], strict=True):
        store.put(journal[start:end])
        assert everything(opened(store, cls)) == everything(uncached(store, cls))


@every_view
@given(journal=stored, steps=st.lists(st.integers(0, 2), max_size=40))
def test_views_are_the_fold_when_processes_read_and_save_by_turns(
    cls: type[Any], journal: list[bytes], steps: list[int]
) -> None:
    """Two that stay, and one more at each row."""
    store = Rows()
    processes = [Journal(store, "ses"), Journal(store, "ses")]
    for at, row in enumerate(journal):
        store.put([row])
        right = everything(uncached(store, cls))
        step = steps[at] if at < len(steps) else 2
        if step < 2:
            assert everything(processes[step].view(cls)) == right
        else:
            assert everything(opened(store, cls)) == right


@every_view
@given(journal=stored, more=stored, lengths=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_a_journal_that_lost_rows_and_got_others_has_its_own_views(
    cls: type[Any], journal: list[bytes], more: list[bytes], lengths: tuple[int, int]
) -> None:
    """As after a copy of it was put back. The ids of rows are never used again."""
    store = Rows()
    store.put(journal)
    warm = Journal(store, "ses")
    warm.view(cls)
    store.cut(min(lengths))
    at = store.last_seq("ses")
    others = [*more[at:], *journal, ENDING]  # more than there were: who is warm sees that something came
    store.put([renamed(row, number) for number, row in enumerate(others, at + 1)])
    for _ in range(2):
        assert everything(opened(store, cls)) == everything(uncached(store, cls))
    assert everything(warm.view(cls)) == everything(uncached(store, cls))


ENDING = recordable(envelopes([("NO_MORE_ACTIONS", {"turn_id": "t"})]))[0]


def renamed(row: bytes, seq: int) -> bytes:
    envelope = decode_row(row)
    return encode_row(msgspec.structs.replace(envelope, id=f"evt_other_{seq}", seq=seq))
