from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from segue.errors import StorageError
from segue.events import (
    CallEnded,
    CallStarted,
    Envelope,
    Event,
    HeadMoved,
    InvocationStarted,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    SessionUpdated,
    ToolCall,
    ToolResult,
    TranscriptCompacted,
)
from segue.events.codec import row_bytes
from segue.fold import CallGraph, Conversation, Turns, Waits
from segue.journal import Journal, cache
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft

CACHED: list[type[Any]] = [Conversation, CallGraph, Turns, Waits]
every_view = pytest.mark.parametrize("cls", CACHED, ids=lambda cls: cls.__name__)


class Store(MemoryStore):
    """A memory store that tells where reading began, and whose files can be changed."""

    def __init__(self, session_id: str = "chat_1") -> None:
        super().__init__()
        self.session_id = session_id
        self.reads: list[int] = []
        self.create(session_id)

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        self.reads.append(after_seq)
        return super().read(session_id, after_seq)

    @property
    def files(self) -> dict[str, bytes]:
        return self._session(self.session_id).caches

    @property
    def lines(self) -> list[bytes]:
        return self._session(self.session_id).lines

    def turns(self, first: int, last: int) -> None:
        """Write these turns."""
        journal = Journal(self, self.session_id)
        lease = journal.acquire(holder="me")
        for number in range(first, last + 1):
            journal.append(*turn(number), lease=lease)
        journal.release(lease)


def turn(number: int) -> list[Event]:
    """Ten rows."""
    node, message, call = f"node_{number}", f"m_{number}", f"call_{number}"
    text = {"type": "text", "text": f"answer \ud83d {number}"}
    return [
        InvocationStarted(
            invocation_id=f"inv_{number}",
            turn_id=f"turn_{number}",
            reason={"kind": "user_message", "input": f"question {number}"},
        ),
        CallStarted(node_id=node, kind="function", name="f", arguments={"n": number}),
        ToolCall(tool_call_id=call, name="look", arguments={"at": number}),
        ToolResult(tool_call_id=call, result={"seen": 10**30}),
        MessageStart(message_id=message),
        MessageDelta(message_id=message, delta=text),
        MessageDelta(message_id=message, delta=text),
        MessageEnd(message_id=message),
        CallEnded(node_id=node, status="completed", result=number),
        NoMoreActions(turn_id=f"turn_{number}"),
    ]


@pytest.fixture(autouse=True)
def saved_every_twenty_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ROWS", 20)


@pytest.fixture
def store() -> Store:
    """Five turns; of every view four are saved, in two records."""
    store = Store()
    for first in (1, 3):
        store.turns(first, first + 1)
        for cls in CACHED:
            opened(store, cls)
    store.turns(5, 5)
    store.reads.clear()
    return store


def opened(store: Store, cls: type[Any]) -> Any:
    """The view as a process finds it that opens the session now."""
    return Journal(store, store.session_id).view(cls)


def everything(view: Any) -> str:
    view = copy.deepcopy(view)
    if isinstance(view, Waits):
        return repr((view.open, view.changes()))
    shown = [view.changes(whole=True)]
    if isinstance(view, Conversation):
        shown += [
            view.messages(),
            view.pending_tool_calls,
            view.diagnostics,
            len(view),
            view.answered_length(),
        ]
    return repr(shown)


def folded(store: Store, cls: type[Any]) -> str:
    """The view without a cache."""
    files = dict(store.files)
    store.files.clear()
    try:
        return everything(opened(store, cls))
    finally:
        store.files.clear()
        store.files.update(files)


@every_view
def test_a_cold_open_reads_only_the_rows_after_the_last_that_is_saved(store: Store, cls: type[Any]) -> None:
    view = opened(store, cls)
    assert store.reads == [39]  # the saved row itself is read to be compared
    assert everything(view) == folded(store, cls)


@every_view
def test_a_record_is_written_when_a_turn_ends_and_enough_rows_have_come(cls: type[Any]) -> None:
    store = Store()
    journal, sizes = Journal(store, "chat_1"), []
    for number in range(1, 7):
        store.turns(number, number)
        journal.view(cls)
        sizes.append(store.files.get(cls.__name__.lower(), b"").count(b"\n"))
    assert sizes == [0, 1, 1, 2, 2, 3]


@every_view
def test_a_view_that_was_saved_and_goes_on_is_the_fold(cls: type[Any]) -> None:
    store = Store()
    journal = Journal(store, "chat_1")
    for number in range(1, 7):
        store.turns(number, number)
        assert everything(journal.view(cls)) == folded(store, cls)


@every_view
def test_reading_beside_the_writer_saves_too_and_neither_is_in_the_others_way(cls: type[Any]) -> None:
    store = Store()
    one, other = Journal(store, "chat_1"), Journal(store, "chat_1")
    for number in range(1, 9):
        store.turns(number, number)
        if number % 3:
            one.view(cls)
        if number % 2:
            other.view(cls)
    store.reads.clear()
    assert everything(opened(store, cls)) == folded(store, cls)
    assert store.reads[0] >= 59


@every_view
def test_what_is_damaged_anywhere_changes_nothing_but_time(store: Store, cls: type[Any]) -> None:
    name, right = cls.__name__.lower(), folded(store, cls)
    data = store.files[name]
    for at in range(len(data)):
        store.files[name] = data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :]
        assert everything(opened(store, cls)) == right


@every_view
def test_what_is_cut_off_anywhere_changes_nothing_but_time(store: Store, cls: type[Any]) -> None:
    name, right = cls.__name__.lower(), folded(store, cls)
    data = store.files[name]
    for length in range(len(data)):
        store.files[name] = data[:length]
        assert everything(opened(store, cls)) == right


@every_view
@pytest.mark.parametrize("data", [b"\n", b"\0" * 4096, b"00000000 []\n", b"x" * 1_000_000, b"\xff\n" * 1000])
def test_garbage_in_its_place_changes_nothing_but_time(store: Store, cls: type[Any], data: bytes) -> None:
    right = folded(store, cls)
    store.files[cls.__name__.lower()] = data
    assert everything(opened(store, cls)) == right


@every_view
def test_the_good_part_before_a_damaged_record_is_used(store: Store, cls: type[Any]) -> None:
    name = cls.__name__.lower()
    first, second = store.files[name].splitlines(keepends=True)
    store.files[name] = first + second.replace(b"4", b"5")
    opened(store, cls)
    assert store.reads == [19]


@every_view
def test_a_file_that_is_mostly_of_no_use_is_written_anew(store: Store, cls: type[Any]) -> None:
    name = cls.__name__.lower()
    store.files[name] = b"garbage\n" * 1000
    opened(store, cls)
    assert b"garbage" not in store.files[name]
    store.reads.clear()
    opened(store, cls)
    assert store.reads[0] >= 19


@every_view
def test_the_cache_of_another_session_is_not_believed(store: Store, cls: type[Any]) -> None:
    other, name = Store("chat_2"), cls.__name__.lower()
    other.turns(1, 5)
    other.files[name] = store.files[name]
    assert everything(opened(other, cls)) == folded(other, cls)
    assert other.reads[0] == 0


@every_view
def test_the_cache_of_another_version_of_the_fold_is_not_believed(
    store: Store, cls: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    opened(store, cls)
    assert store.reads == [0]


@every_view
def test_the_cache_of_another_journal_under_the_same_id_is_not_believed(store: Store, cls: type[Any]) -> None:
    other, name = Store(), cls.__name__.lower()
    other.turns(11, 16)
    other.files[name] = store.files[name]
    assert everything(opened(other, cls)) == folded(other, cls)


@every_view
def test_an_older_cache_is_used_as_far_as_it_goes(store: Store, cls: type[Any]) -> None:
    older = dict(store.files)
    store.turns(6, 9)
    opened(store, cls)
    store.files.update(older)
    store.reads.clear()
    assert everything(opened(store, cls)) == folded(store, cls)
    assert store.reads[0] == 39


@every_view
def test_what_a_longer_journal_left_is_not_taken_for_the_new_rows(store: Store, cls: type[Any]) -> None:
    del store.lines[25:]
    opened(store, cls)
    store.turns(11, 12)
    opened(store, cls)
    store.turns(13, 16)
    assert everything(opened(store, cls)) == folded(store, cls)
    assert everything(opened(store, cls)) == folded(store, cls)


@every_view
def test_who_knew_the_journal_before_it_was_repaired_does_not_spoil_what_others_saved(
    store: Store, cls: type[Any]
) -> None:
    """As `segue sessions repair` does: a row in the middle is another one, and the cache is gone."""
    before = Journal(store, "chat_1")
    before.view(cls)
    store.lines[10:16] = [row_bytes("chat_1", seq, LOST) for seq in range(11, 17)]
    store.files.clear()
    store.turns(6, 7)
    opened(store, cls)
    store.turns(8, 9)
    assert everything(before.view(cls)) == folded(store, cls)
    assert everything(opened(store, cls)) == folded(store, cls)


LOST = Draft("evt_lost", "test", "ROW_LOST", b'{"reason":"gone"}', "2026-01-01T00:00:00Z")


@every_view
def test_a_changed_row_at_the_saved_place_drops_the_cache(store: Store, cls: type[Any]) -> None:
    store.lines[39] = store.lines[39].replace(b"evt_", b"evx_")
    assert everything(opened(store, cls)) == folded(store, cls)
    assert store.reads[:2] == [39, 0]


@every_view
def test_a_view_starts_anew_when_the_session_was_made_again_with_more_rows(
    store: Store, cls: type[Any]
) -> None:
    journal = Journal(store, "chat_1")
    journal.view(cls)
    store.delete("chat_1")
    store.create("chat_1")
    store.turns(11, 19)
    assert everything(journal.view(cls)) == folded(store, cls)


def test_a_head_that_moves_drops_what_was_saved_of_the_conversation(store: Store) -> None:
    journal = Journal(store, "chat_1")
    journal.view(Conversation)
    lease = journal.acquire(holder="me")
    journal.append(HeadMoved(to_seq=10), *turn(6), lease=lease)
    journal.release(lease)
    assert [
        message["content"] for message in journal.view(Conversation).messages() if message["role"] == "user"
    ] == [
        "question 1",
        "question 6",
    ]
    assert everything(opened(store, Conversation)) == everything(journal.view(Conversation))
    store.reads.clear()
    opened(store, Conversation)
    assert store.reads == [60]


def test_a_compaction_replaces_what_was_saved_before_it(store: Store) -> None:
    journal = Journal(store, "chat_1")
    lease = journal.acquire(holder="me")
    wire = {"type": "function", "id": "c", "function": {"arguments": "{}", "name": "f"}}
    messages = [  # keys in an order of their own, as they are sent
        {"content": "in short", "role": "user"},
        {"content": "", "role": "assistant", "tool_calls": [wire]},
        {"content": "done", "role": "tool", "tool_call_id": "c"},
    ]
    journal.append(
        TranscriptCompacted(messages=messages, replaces_up_to_seq=50), *turn(6), *turn(7), lease=lease
    )
    journal.release(lease)
    opened(store, Conversation)
    assert everything(opened(store, Conversation)) == folded(store, Conversation)


def test_a_result_that_comes_late_finds_its_call_among_the_saved_ones(store: Store) -> None:
    journal = Journal(store, "chat_1")
    lease = journal.acquire(holder="me")
    journal.append(
        ToolCall(tool_call_id="late", name="f", arguments={}), *turn(6), *turn(7), *turn(8), lease=lease
    )
    opened(store, Conversation)
    journal.append(ToolResult(tool_call_id="late", result="at last"), *turn(9), lease=lease)
    store.reads.clear()
    view = opened(store, Conversation)
    assert store.reads == [80]
    assert everything(view) == folded(store, Conversation)
    journal.append(*turn(10), *turn(11), lease=lease)
    opened(store, Conversation)
    assert everything(opened(store, Conversation)) == folded(store, Conversation)


def test_messages_from_a_position_on_are_the_end_of_all_also_among_those_left_behind(store: Store) -> None:
    journal = Journal(store, "chat_1")
    lease = journal.acquire(holder="me")
    journal.append(*turn(6)[:4], ToolCall(tool_call_id="open", name="f", arguments={}), *turn(7), lease=lease)
    view = opened(store, Conversation)
    whole = view.messages()
    for at in range(-len(whole) - 2, len(whole) + 3):
        assert view.messages(at) == whole[at:]


@every_view
@pytest.mark.parametrize("seq", [1, 5, 20, 21, 22, 37, 41, 51])
def test_a_view_of_earlier_rows_is_their_fold_and_leaves_what_is_saved_alone(
    store: Store, cls: type[Any], seq: int
) -> None:
    files, earlier = dict(store.files), Store()
    earlier.lines.extend(store.lines[: seq - 1])
    view = Journal(store, "chat_1").view_before(cls, seq)
    assert store.reads[-1] == max((seq - 1) // 20 * 20 - 1, 0)
    assert store.files == files
    assert everything(view) == folded(earlier, cls)


def test_a_store_that_keeps_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("no space")

    store = Store()
    store.turns(1, 5)
    monkeypatch.setattr(store, "write_cache", refuse)
    assert everything(opened(store, Turns)) == folded(store, Turns)
    assert store.files == {}


def test_a_record_that_fits_but_cannot_be_taken_is_dropped_with_a_word(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    saved = cache.Cache(store, "chat_1", Conversation)
    line = saved._line(cache.Record("x", 0, 50, "evt", Conversation().changes()))
    strange = cache.Cache(store, "chat_1", Turns)
    strange._name, strange._seed = saved._name, saved._seed
    odd = strange._line(cache.Record("x", 0, 20, "evt", Turns().changes()))
    assert line != odd
    store.files["conversation"] = odd
    with caplog.at_level(logging.WARNING):
        assert everything(opened(store, Conversation)) == folded(store, Conversation)
    assert "the fold cache of session chat_1 is of no use" in caplog.text


def test_views_without_changes_are_not_saved(store: Store) -> None:
    class Types:
        def __init__(self) -> None:
            self.types: list[str] = []

        def apply(self, envelope: Envelope) -> None:
            self.types.append(envelope.type)

    store.files.clear()
    assert len(opened(store, Types).types) == 50
    assert store.files == {}


def test_control_rows_after_the_last_turn_are_part_of_the_view(store: Store) -> None:
    journal = Journal(store, "chat_1")
    journal.append(*[SessionUpdated(title="x")] * 30)
    assert everything(opened(store, Turns)) == folded(store, Turns)
    assert msgspec.json.encode(opened(store, Turns).all) == msgspec.json.encode(journal.view(Turns).all)
