from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from segue.errors import InvalidEvent, LeaseRequired, StaleWriter, StorageError
from segue.events import (
    CancelRequested,
    Envelope,
    Error,
    HeadMoved,
    MessageDelta,
    MessageEnd,
    MessageStart,
    NoMoreActions,
    SessionCreated,
)
from segue.fold.path import active_path
from segue.journal import DELTA_BYTES, Journal, flush_journals, open_journal
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Draft, Lease


class Watched(MemoryStore):
    """The memory store, which also tells what was asked of it, and fails or holds writes back on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.create("chat_1")
        self.appends: list[list[str]] = []
        self.reads: list[int] = []
        self.fail: list[Exception] = []
        self.hold = False
        self.waiting: list[Future[list[int]]] = []
        self.written = threading.Condition()

    @property
    def rows(self) -> list[Envelope]:
        return list(super().read("chat_1"))

    def submit(self, session_id: str, drafts: Sequence[Draft], **options: Any) -> Future[list[int]]:
        if self.fail or self.hold:
            future: Future[list[int]] = Future()
            future.set_running_or_notify_cancel()
            self.waiting.append(future)
            if self.fail:
                future.set_exception(self.fail.pop(0))
            return future
        self.appends.append([draft.type for draft in drafts])
        with self.written:
            self.written.notify_all()
            return super().submit(session_id, drafts, **options)

    def read(self, session_id: str, after_seq: int = 0) -> Iterator[Envelope]:
        self.reads.append(after_seq)
        return super().read(session_id, after_seq)

    def wait_for_rows(self, count: int) -> None:
        with self.written:
            assert self.written.wait_for(lambda: self.last_seq("chat_1") >= count, timeout=10)


class Texts:
    """A view: the text of every delta, and how many rows it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.seqs: list[int] = []

    def apply(self, envelope: Envelope) -> None:
        self.seqs.append(envelope.seq)
        if envelope.type == "MESSAGE_DELTA":
            self.texts.append(envelope.payload["delta"]["text"])


class Types:
    def __init__(self) -> None:
        self.types: list[str] = []

    def apply(self, envelope: Envelope) -> None:
        self.types.append(envelope.type)


class FailsOnce(Types):
    failures = 1

    def apply(self, envelope: Envelope) -> None:
        if envelope.type == "ERROR" and FailsOnce.failures:
            FailsOnce.failures -= 1
            raise RuntimeError("the view broke")
        super().apply(envelope)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def journal(store: Watched) -> Journal:
    numbers = iter(range(1, 1000))
    return Journal(
        store,
        "chat_1",
        deployment_id="test",
        clock=lambda: "2026-11-29T12:00:00.000000Z",
        id_source=lambda prefix: f"{prefix}_{next(numbers)}",
    )


@pytest.fixture
def lease(journal: Journal) -> Lease:
    return journal.acquire(holder="me")


def types(store: Watched) -> list[str]:
    return [row.type for row in store.rows]


def texts(store: Watched) -> list[tuple[str, str]]:
    deltas = [row.payload["delta"] for row in store.rows if row.type == "MESSAGE_DELTA"]
    return [(delta["type"], delta["text"]) for delta in deltas]


def test_an_append_stamps_the_facts_and_gives_their_seqs(journal: Journal, store: Watched) -> None:
    assert journal.append(SessionCreated(title="a"), CancelRequested()) == [1, 2]
    stamp = ("chat_1", "test")
    now = "2026-11-29T12:00:00.000000Z"
    assert store.rows == [
        Envelope("evt_1", *stamp, 1, "SESSION_CREATED", {"title": "a"}, now),
        Envelope("evt_2", *stamp, 2, "CANCEL_REQUESTED", {}, now),
    ]
    assert journal.last_seq == 2
    assert list(journal.read(1)) == store.rows[1:]
    assert next(journal.watch(1)) == store.rows[1:]


def test_a_turn_row_without_the_lease_is_refused_and_nothing_is_queued(
    journal: Journal, store: Watched
) -> None:
    with pytest.raises(LeaseRequired, match="NO_MORE_ACTIONS is a turn row"):
        journal.append(CancelRequested(), NoMoreActions())
    assert store.rows == []


def test_an_invalid_fact_refuses_the_whole_append(journal: Journal, store: Watched, lease: Lease) -> None:
    with pytest.raises(InvalidEvent, match=r"ERROR\.message"):
        journal.append(NoMoreActions(), Error(message=1), lease=lease)
    assert store.rows == []


def test_the_stores_refusal_is_the_appenders_error(journal: Journal, store: Watched) -> None:
    with pytest.raises(StaleWriter):
        journal.append(CancelRequested(), expected_seq=5)
    assert store.rows == []


def test_an_append_of_nothing_writes_nothing(journal: Journal, store: Watched) -> None:
    assert journal.append() == []
    assert store.appends == []


async def test_an_async_append_waits_for_its_rows(journal: Journal, store: Watched) -> None:
    assert await journal.append_async(CancelRequested()) == [1]
    assert types(store) == ["CANCEL_REQUESTED"]


async def test_cancelling_an_async_append_does_not_cancel_the_write(journal: Journal, store: Watched) -> None:
    store.hold = True
    task = asyncio.create_task(journal.append_async(CancelRequested()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [future.cancelled() for future in store.waiting] == [False]


def test_text_of_one_message_becomes_one_row_in_front_of_the_next_append(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    for piece in ("Hel", "lo", ""):
        journal.buffer_delta("m", "text", piece, lease=lease)
    assert store.rows == []
    assert journal.append(MessageEnd(message_id="m"), lease=lease) == [2]
    assert store.appends == [["MESSAGE_DELTA", "MESSAGE_END"]]
    assert texts(store) == [("text", "Hello")]


def test_text_keeps_its_order_when_kind_message_or_caller_changes(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "reasoning", "a", lease=lease)
    journal.buffer_delta("m", "text", "b", lease=lease)
    journal.buffer_delta("n", "text", "c", lease=lease)
    journal.buffer_delta("n", "text", "d", called_by="node_1", lease=lease)
    journal.flush()
    assert [row.payload for row in store.rows] == [
        {"message_id": "m", "delta": {"type": "reasoning", "text": "a"}},
        {"message_id": "m", "delta": {"type": "text", "text": "b"}},
        {"message_id": "n", "delta": {"type": "text", "text": "c"}},
        {"message_id": "n", "delta": {"type": "text", "text": "d"}, "called_by": "node_1"},
    ]


def test_a_surrogate_pair_split_over_two_pieces_is_joined(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "\ud83d", lease=lease)
    journal.buffer_delta("m", "text", "\ude00", lease=lease)
    journal.flush()
    assert texts(store) == [("text", "\U0001f600")]


def test_text_is_written_at_once_when_there_is_enough_of_it(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "x" * DELTA_BYTES, lease=lease)
    assert [len(text) for _, text in texts(store)] == [DELTA_BYTES]


def test_text_that_waits_is_written_without_another_call(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "later", lease=lease)
    store.wait_for_rows(1)
    assert texts(store) == [("text", "later")]


def test_a_control_row_follows_the_text_that_waits_without_needing_its_lease(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "a", lease=lease)
    assert journal.append(CancelRequested()) == [2]
    assert store.appends == [["MESSAGE_DELTA"], ["CANCEL_REQUESTED"]]


def test_a_failed_background_write_is_raised_once_at_the_next_append_of_that_lease(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "lost", lease=lease)
    store.fail = [StorageError("disk full")]
    journal.append(CancelRequested())
    journal.append(CancelRequested())
    with pytest.raises(StorageError, match="disk full"):
        journal.append(MessageEnd(message_id="m"), lease=lease)
    assert journal.append(NoMoreActions(), lease=lease) == [3]


def test_a_failed_background_write_is_raised_by_the_next_text(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    store.fail = [StorageError("disk full")]
    journal.buffer_delta("m", "text", "x" * DELTA_BYTES, lease=lease)
    with pytest.raises(StorageError, match="disk full"):
        journal.buffer_delta("m", "text", "y", lease=lease)


@pytest.mark.parametrize(("kind", "text"), [("text", b"x"), ("audio", "x"), ("text", None)])
def test_what_is_not_text_is_refused_when_it_is_given(
    journal: Journal, lease: Lease, kind: Any, text: Any
) -> None:
    with pytest.raises(InvalidEvent, match=r"MESSAGE_DELTA\.delta"):
        journal.buffer_delta("m", kind, text, lease=lease)


def test_releasing_the_lease_writes_the_text_first(journal: Journal, store: Watched, lease: Lease) -> None:
    journal.buffer_delta("m", "text", "end", lease=lease)
    journal.release(lease)
    assert texts(store) == [("text", "end")]
    assert store.holder("chat_1") is None


def test_the_lease_is_released_even_when_the_text_cannot_be_written(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "end", lease=lease)
    store.fail = [StorageError("disk full")]
    with pytest.raises(StorageError, match="disk full"):
        journal.release(lease)
    assert store.holder("chat_1") is None


def test_text_whose_write_fails_late_is_told_when_the_lease_is_released(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    store.hold = True
    journal.buffer_delta("m", "text", "x" * DELTA_BYTES, lease=lease)
    store.hold = False
    assert journal.append(NoMoreActions(), lease=lease) == [1]
    store.waiting[0].set_exception(StorageError("disk full"))
    with pytest.raises(StorageError, match="disk full"):
        journal.release(lease)
    assert store.holder("chat_1") is None


def test_a_submitted_append_gives_its_own_seqs_when_the_store_has_written_it(
    journal: Journal, store: Watched, lease: Lease
) -> None:
    journal.buffer_delta("m", "text", "in front", lease=lease)
    store.hold = True
    future = journal.submit(NoMoreActions(), CancelRequested(), lease=lease)
    assert (future.done(), future.cancel()) == (False, False)
    store.waiting[0].set_result([7, 8, 9])
    assert future.result() == [8, 9]


def test_flushing_the_journals_of_a_store_leaves_those_of_others_alone() -> None:
    first, second = Watched(), Watched()
    journals = [open_journal(store, "chat_1") for store in (first, second)]
    for journal in journals:
        journal.buffer_delta("m", "text", "x", lease=journal.acquire(holder="me"))
    second.hold = True
    flush_journals(first)
    assert texts(first) == [("text", "x")]


def test_a_view_holds_the_rows_that_are_visible_now(journal: Journal, lease: Lease) -> None:
    journal.append(MessageStart(message_id="m"), lease=lease)
    view = journal.view(Texts)
    journal.append(MessageDelta(message_id="m", delta={"type": "text", "text": "hi"}), lease=lease)
    assert journal.view(Texts) is view
    assert (view.texts, view.seqs) == (["hi"], [1, 2])


def test_all_views_share_one_reading_of_the_new_rows(journal: Journal, store: Watched, lease: Lease) -> None:
    journal.append(CancelRequested())
    journal.view(Texts), journal.view(Types)
    store.reads.clear()
    journal.append(CancelRequested(), NoMoreActions(), lease=lease)
    assert journal.view(Types).types == ["CANCEL_REQUESTED", "CANCEL_REQUESTED", "NO_MORE_ACTIONS"]
    assert journal.view(Texts).seqs == [1, 2, 3]
    assert store.reads == [0]  # from the row they stand on, to see that it is still that one


def test_a_view_that_comes_later_gets_every_row_once(journal: Journal, lease: Lease) -> None:
    journal.append(CancelRequested())
    journal.view(Texts)
    journal.append(CancelRequested())
    assert journal.view(Types).types == ["CANCEL_REQUESTED"] * 2
    assert journal.view(Texts).seqs == [1, 2]


def test_views_are_folded_again_after_one_of_them_broke(journal: Journal, lease: Lease) -> None:
    FailsOnce.failures = 1
    journal.append(CancelRequested())
    journal.view(Texts), journal.view(FailsOnce)
    journal.append(Error(message="x"), lease=lease)
    with pytest.raises(RuntimeError, match="the view broke"):
        journal.view(Texts)
    assert journal.view(Texts).seqs == [1, 2]
    assert journal.view(FailsOnce).types == ["CANCEL_REQUESTED", "ERROR"]


def test_views_start_anew_when_the_session_was_deleted_and_made_again(
    journal: Journal, store: Watched
) -> None:
    journal.append(CancelRequested(), CancelRequested())
    journal.view(Texts)
    store.delete("chat_1")
    store.create("chat_1")
    journal.append(SessionCreated())
    assert journal.view(Types).types == ["SESSION_CREATED"]
    assert journal.view(Texts).seqs == [1]


class Path(Types):
    ACTIVE_PATH = True


def test_a_view_of_the_active_path_is_folded_again_when_the_head_moves(
    journal: Journal, lease: Lease
) -> None:
    journal.append(SessionCreated(), MessageStart(message_id="m"), MessageEnd(message_id="m"), lease=lease)
    journal.view(Types), journal.view(Path)
    journal.append(HeadMoved(to_seq=1), NoMoreActions(), lease=lease)
    assert journal.view(Path).types == ["SESSION_CREATED", "HEAD_MOVED", "NO_MORE_ACTIONS"]
    assert journal.view(Types).types == [
        "SESSION_CREATED", "MESSAGE_START", "MESSAGE_END", "HEAD_MOVED", "NO_MORE_ACTIONS"
    ]  # fmt: skip


def test_a_view_of_the_active_path_that_comes_later_is_the_same(journal: Journal, lease: Lease) -> None:
    journal.append(SessionCreated(), NoMoreActions(), HeadMoved(to_seq=1), lease=lease)
    assert journal.view(Path).types == ["SESSION_CREATED", "HEAD_MOVED"]


@pytest.mark.parametrize(
    ("moves", "path"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({4: 1}, [1, 4, 5, 6]),
        ({3: 1, 6: 2}, [1, 2, 6]),  # back onto the way that the first move had left
        ({2: 0, 5: 2}, [2, 5, 6]),
        ({4: 4, 5: 99, 6: -1}, [1, 2, 3, 4, 5, 6]),
        ({4: "1"}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_active_path_follows_every_move_of_the_head(moves: dict[int, Any], path: list[int]) -> None:
    rows = [
        Envelope("e", "s", "d", seq, "HEAD_MOVED" if seq in moves else "X", {"to_seq": moves.get(seq)}, "now")
        for seq in range(1, 7)
    ]
    assert [row.seq for row in active_path(rows)] == path


def test_other_threads_cannot_change_a_view_inside_viewing(journal: Journal) -> None:
    journal.append(CancelRequested())
    with journal.viewing(Texts) as view:
        thread = threading.Thread(target=lambda: (journal.append(CancelRequested()), journal.view(Texts)))
        thread.start()
        thread.join(0.2)
        assert view.seqs == [1]
    thread.join()
    assert view.seqs == [1, 2]


def test_appends_of_many_threads_give_every_row_its_own_seq(journal: Journal, store: Watched) -> None:
    found: list[int] = []
    work = [
        threading.Thread(target=lambda: found.extend(journal.append(CancelRequested()))) for _ in range(16)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert sorted(found) == list(range(1, 17))


def test_a_session_has_one_journal_in_a_process_while_anybody_holds_it(store: Watched) -> None:
    one: Journal | None = open_journal(store, "chat_1")
    assert open_journal(store, "chat_1") is one
    assert open_journal(store, "chat_2") is not one
    assert open_journal(Watched(), "chat_1") is not one
    one.opened = True  # type: ignore[union-attr]
    one = None
    gc.collect()
    assert open_journal(store, "chat_1").opened is False


def in_child(store: Watched, journal: Journal, lease: Lease, answers: Any) -> None:
    same = open_journal(store, "chat_1") is journal
    journal.append(NoMoreActions(), lease=lease)
    journal.buffer_delta("m", "text", "child", lease=lease)
    store.wait_for_rows(2)
    answers.put((same, types(store), texts(store)))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own_journal_and_leaves_the_parents_text_to_the_parent(
    store: Watched,
) -> None:
    journal = open_journal(store, "chat_1")
    lease = journal.acquire(holder="me")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with journal._lock:  # held by this thread at the fork: the child must not wait for it
        journal.buffer_delta("m", "text", "parent", lease=lease)
        child = context.Process(target=in_child, args=(store, journal, lease, answers))
        child.start()
        found = answers.get()
        child.join()
    assert found == (False, ["NO_MORE_ACTIONS", "MESSAGE_DELTA"], [("text", "child")])
    journal.flush()
    assert texts(store) == [("text", "parent")]


EXIT = """
import sys
sys.path.insert(0, {folder!r})
from test_journal import Watched
from segue.journal import open_journal

class Telling(Watched):
    def submit(self, session_id, drafts, **options):
        print("wrote", [draft.type for draft in drafts])
        return super().submit(session_id, drafts, **options)

journal = open_journal(Telling(), "chat_1")
journal.buffer_delta("m", "text", "last words", lease=journal.acquire(holder="me"))
"""


def test_the_interpreter_ends_at_once_and_text_that_waits_is_written() -> None:
    program = EXIT.format(folder=str(pathlib.Path(__file__).parent))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (ran.stdout, ran.returncode) == ("wrote ['MESSAGE_DELTA']\n", 0)
