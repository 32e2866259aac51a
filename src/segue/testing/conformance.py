"""What every store must do, as pytest classes. A store of your own is one when these pass:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self, tmp_path):
            with closing(MyStore(tmp_path)) as store:
                yield store

    class TestMyStoreInProcesses(MultiProcessConformance):
        opener = "my_package:MyStore"       # called with a location, in several processes

The numbers are those of the promises in `segue.stores.protocol`. Promise 10, flat cost, is measured by
benchmarks.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from segue.errors import (
    BlobNotFound,
    InvalidEvent,
    InvalidSessionId,
    LeaseRequired,
    SessionBusy,
    SessionNotFound,
    StaleWriter,
    StorageError,
)
from segue.events.codec import decode_json
from segue.stores.protocol import Lease, Stop, Store
from segue.testing import contention
from segue.testing.children import acknowledged
from segue.testing.process_conformance import MultiProcessConformance
from segue.testing.store_process import control_row, turn_row

__all__ = ["BAD_IDS", "NASTY_PAYLOADS", "MultiProcessConformance", "StoreConformance"]

SESSION = "s1"

_PATHS = ("../x", "/etc/passwd", "a/../../b", "a\\..\\b", "..", ".", "", ".git", "a..b", "a.", "refs/heads/x")
_TEXTS = (
    "a\x00b",
    "a\nb",
    "s1\n",
    "a b",
    "é",
    "-rf",
    "--upload-pack=x",
    "%2e%2e%2f",
    "; drop table",
    "a" * 129,
)
BAD_IDS = (*_PATHS, *_TEXTS, "con", "NUL.txt")

NASTY_PAYLOADS = (
    b'{"title":"a\\u0000b"}',
    b'{"title":"literal \\\\u0000 text"}',
    b'{"title":"half \\ud83d"}',
    b'{"title":"other half \\ude00"}',
    b'{"title":"' + "\u2028\u2029\u0085\U0001f600\ufeff".encode() + b'"}',
    b'{"title":"\\r\\n \\n \\t"}',
    b'{"n":' + b"7" * 5000 + b"}",
    b'{"n":-0.0,"m":0,"big":1e300,"small":5e-324}',
    b'{"z":1,"a":{"b":2,"A":3},"":null,"\\u0000":true}',
    b'{"spaces" : [ 1 , 2 ] }',
    b"{}",
)
"""To be read back to the byte, as lines, and as equal values, as rows."""


class StoreConformance:
    """Subclass it with a fixture `store`: a fresh, open, empty store."""

    appends = 250
    """Of each of the eight threads that write one session at once."""

    @pytest.fixture(autouse=True)
    def session(self, store: Store) -> None:
        store.create(SESSION)

    # Sessions and ids

    def test_creating_a_session_twice_tells_that_it_existed(self, store: Store) -> None:
        assert (store.create("other"), store.create("other")) == (True, False)

    def test_sessions_are_listed_sorted(self, store: Store) -> None:
        store.create("b")
        store.create("a")
        assert store.sessions() == ["a", "b", SESSION]

    def test_a_session_exists_once_it_is_created(self, store: Store) -> None:
        assert (store.exists(SESSION), store.exists("other")) == (True, False)

    def test_ids_that_differ_only_in_case_do_not_share_storage(self, store: Store) -> None:
        for session_id in ("abc", "ABC", "aBc"):
            store.create(session_id)
            store.append(session_id, [control_row(b'{"title":"%s"}' % session_id.encode())])
        assert [row.payload["title"] for name in ("abc", "ABC", "aBc") for row in store.read(name)] == [
            "abc",
            "ABC",
            "aBc",
        ]

    @pytest.mark.parametrize("bad", BAD_IDS)
    def test_a_bad_id_is_refused_by_every_method(self, store: Store, bad: str) -> None:
        operations: tuple[Callable[[str], object], ...] = (
            store.create,
            store.exists,
            store.delete,
            store.last_seq,
            store.read,
            store.read_lines,
            store.watch,
            store.holder,
            lambda name: store.unmark(name, 0),
            lambda name: store.append(name, [control_row()]),
            lambda name: store.submit(name, [control_row()]),
            lambda name: store.acquire(name, holder="me"),
            lambda name: store.put_blob(name, "files", b""),
            lambda name: store.get_blob(name, "files", "0" * 64),
            lambda name: store.read_cache(name, "view"),
            lambda name: store.write_cache(name, "view", b"", after=None),
            lambda name: store.commit(name, "message"),
        )
        for operation in operations:
            with pytest.raises(InvalidSessionId):
                operation(bad)
        assert store.sessions() == [SESSION]

    def test_a_session_that_was_never_created_is_not_found(self, store: Store) -> None:
        operations: tuple[Callable[[str], object], ...] = (
            store.delete,
            store.last_seq,
            lambda name: list(store.read(name)),
            lambda name: next(store.watch(name)),
            store.holder,
            lambda name: store.append(name, [control_row()]),
            lambda name: store.submit(name, [control_row()]).result(),
            lambda name: store.acquire(name, holder="me"),
            lambda name: store.put_blob(name, "files", b""),
            lambda name: store.get_blob(name, "files", "0" * 64),
            lambda name: store.read_cache(name, "view"),
            lambda name: store.write_cache(name, "view", b"", after=None),
            lambda name: store.commit(name, "message"),
        )
        for operation in operations:
            with pytest.raises(SessionNotFound):
                operation("never")

    # 1: all or nothing, gapless

    def test_rows_are_numbered_from_one_without_a_gap(self, store: Store) -> None:
        first = store.append(SESSION, [control_row(), control_row()])
        second = store.append(SESSION, [control_row()])
        assert (first, second, [row.seq for row in store.read(SESSION)]) == ([1, 2], [3], [1, 2, 3])

    def test_an_empty_append_writes_nothing(self, store: Store) -> None:
        assert (store.append(SESSION, []), store.last_seq(SESSION)) == ([], 0)

    def test_one_refused_row_refuses_the_whole_append(self, store: Store) -> None:
        with pytest.raises(LeaseRequired):
            store.append(SESSION, [control_row(), turn_row(), control_row()])
        assert store.last_seq(SESSION) == 0

    def test_submitted_appends_are_written_in_the_order_of_their_thread(self, store: Store) -> None:
        futures = [store.submit(SESSION, [control_row(b'{"title":"%d"}' % n)]) for n in range(50)]
        assert [future.result() for future in futures] == [[n] for n in range(1, 51)]
        assert [row.payload["title"] for row in store.read(SESSION)] == [str(n) for n in range(50)]

    def test_appends_of_four_threads_are_gapless_and_each_is_in_one_piece(self, store: Store) -> None:
        def work(_: int) -> list[list[int]]:
            return [store.append(SESSION, [control_row(), control_row(), control_row()]) for _ in range(50)]

        with ThreadPoolExecutor(4) as pool:
            appends = [seqs for found in pool.map(work, range(4)) for seqs in found]
        assert sorted(appends) == [[n, n + 1, n + 2] for n in range(1, 601, 3)]
        assert [row.seq for row in store.read(SESSION)] == list(range(1, 601))

    def test_what_was_submitted_cannot_be_cancelled(self, store: Store) -> None:
        futures = [store.submit(SESSION, [control_row()]) for _ in range(20)]
        assert [future.cancel() for future in futures] == [False] * 20
        assert [future.result() for future in futures] == [[seq] for seq in range(1, 21)]

    # 3: leases, epochs, expected seq

    def test_a_turn_row_without_the_lease_is_refused(self, store: Store) -> None:
        with pytest.raises(LeaseRequired):
            store.append(SESSION, [turn_row()])

    def test_a_turn_row_with_the_lease_is_written(self, store: Store) -> None:
        lease = store.acquire(SESSION, holder="me")
        assert store.append(SESSION, [turn_row()], lease=lease) == [1]

    def test_control_rows_are_admitted_while_another_has_the_lease(self, store: Store) -> None:
        store.acquire(SESSION, holder="me")
        assert store.append(SESSION, [control_row()]) == [1]

    def test_a_second_holder_is_refused_and_told_who_has_it(self, store: Store) -> None:
        store.acquire(SESSION, holder="the first one")
        with pytest.raises(SessionBusy, match="the first one") as refusal:
            store.acquire(SESSION, holder="the second one")
        assert "the first one" in refusal.value.holder

    def test_the_holder_is_named_until_it_releases(self, store: Store) -> None:
        before = store.holder(SESSION)
        lease = store.acquire(SESSION, holder="me")
        during = store.holder(SESSION)
        store.release(lease)
        assert (before, "me" in (during or ""), store.holder(SESSION)) == (None, True, None)

    def test_epochs_grow(self, store: Store) -> None:
        epochs = []
        for _ in range(3):
            lease = store.acquire(SESSION, holder="me")
            epochs.append(lease.epoch)
            store.release(lease)
        assert epochs == sorted(set(epochs))

    def test_waiting_for_the_lease_gets_it_when_it_is_released(self, store: Store) -> None:
        first = store.acquire(SESSION, holder="first")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.acquire, SESSION, holder="second", wait=30)
            store.release(first)
            assert waiting.result(timeout=30).epoch > first.epoch

    def test_waiting_for_the_lease_ends(self, store: Store) -> None:
        store.acquire(SESSION, holder="first")
        with pytest.raises(SessionBusy):
            store.acquire(SESSION, holder="second", wait=0.05)

    def test_two_threads_never_have_the_lease_together(self, store: Store) -> None:
        inside: list[int] = []
        most: list[int] = []

        def work(number: int) -> None:
            for _ in range(10):
                lease = store.acquire(SESSION, holder=f"thread {number}", wait=60)
                inside.append(number)
                most.append(len(inside))
                store.append(SESSION, [turn_row()], lease=lease)
                inside.remove(number)
                store.release(lease)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert (max(most), store.last_seq(SESSION)) == (1, 40)

    def test_a_released_lease_is_stale(self, store: Store) -> None:
        lease = store.acquire(SESSION, holder="me")
        store.release(lease)
        with pytest.raises(StaleWriter):
            store.append(SESSION, [turn_row()], lease=lease)
        assert store.last_seq(SESSION) == 0

    def test_the_lease_of_an_earlier_epoch_is_stale(self, store: Store) -> None:
        old = store.acquire(SESSION, holder="me")
        store.release(old)
        store.acquire(SESSION, holder="you")
        with pytest.raises(StaleWriter):
            store.append(SESSION, [turn_row()], lease=old)

    def test_releasing_an_old_lease_does_not_free_the_new_one(self, store: Store) -> None:
        old = store.acquire(SESSION, holder="me")
        store.release(old)
        new = store.acquire(SESSION, holder="you")
        store.release(old)
        assert store.append(SESSION, [turn_row()], lease=new) == [1]

    def test_a_made_up_lease_is_stale(self, store: Store) -> None:
        lease = store.acquire(SESSION, holder="me")
        with pytest.raises(StaleWriter):
            store.append(SESSION, [turn_row()], lease=Lease(SESSION, lease.epoch, "guessed"))

    def test_the_lease_of_another_session_is_refused(self, store: Store) -> None:
        store.create("other")
        lease = store.acquire("other", holder="me")
        with pytest.raises(StaleWriter):
            store.append(SESSION, [turn_row()], lease=lease)

    def test_an_append_that_expects_the_last_row_is_written(self, store: Store) -> None:
        store.append(SESSION, [control_row()], expected_seq=0)
        assert store.append(SESSION, [control_row()], expected_seq=1) == [2]

    @pytest.mark.parametrize("expected", [0, 2])
    def test_an_append_that_expects_another_row_is_stale(self, store: Store, expected: int) -> None:
        store.append(SESSION, [control_row()])
        with pytest.raises(StaleWriter):
            store.append(SESSION, [control_row()], expected_seq=expected)
        assert store.last_seq(SESSION) == 1

    def test_of_many_that_expect_the_same_row_one_wins(self, store: Store) -> None:
        futures = [store.submit(SESSION, [control_row()], expected_seq=0) for _ in range(20)]
        results = [future.exception() for future in futures]
        assert [type(result) for result in results].count(type(None)) == 1
        assert store.last_seq(SESSION) == 1

    # 5: reading and watching

    @pytest.mark.parametrize("after", [0, 1, 4, 5, 9])
    def test_reading_begins_after_the_given_row(self, store: Store, after: int) -> None:
        store.append(SESSION, [control_row() for _ in range(5)])
        assert [row.seq for row in store.read(SESSION, after)] == list(range(after + 1, 6))

    def test_a_read_shows_the_rows_of_its_moment(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        rows = store.read(SESSION)
        store.append(SESSION, [control_row()])
        assert [row.seq for row in rows] == [1]

    def test_a_watcher_sees_every_row_once_in_order(self, store: Store) -> None:
        store.append(SESSION, [control_row(), control_row()])
        with ThreadPoolExecutor(4) as pool:
            watchers = [pool.submit(_watch_until, store, 100, after) for after in (0, 0, 1)]
            for _ in range(98):
                store.append(SESSION, [control_row()])
            seen = [watcher.result(timeout=60) for watcher in watchers]
        assert seen == [list(range(1, 101)), list(range(1, 101)), list(range(2, 101))]

    @pytest.mark.parametrize("make", [Stop, threading.Event])
    def test_a_watcher_ends_when_it_is_stopped(self, store: Store, make: type[threading.Event]) -> None:
        stop = make()
        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(lambda: list(store.watch(SESSION, stop=stop)))
            stop.set()
            assert watcher.result(timeout=30) == []

    def test_a_watcher_ends_when_the_store_is_closed(self, store: Store) -> None:
        with ThreadPoolExecutor(1) as pool:
            watcher = pool.submit(lambda: list(store.watch(SESSION)))
            store.close()
            assert watcher.result(timeout=30) == []
        assert list(store.watch(SESSION)) == []

    @pytest.mark.parametrize("again", [False, True])
    def test_a_watcher_of_a_deleted_session_is_told_so(self, store: Store, again: bool) -> None:
        """Also when another one was made under its id: its rows are another journal's."""
        store.append(SESSION, [control_row()])
        watcher = store.watch(SESSION)
        next(watcher)
        store.delete(SESSION)
        if again:
            store.create(SESSION)
            store.append(SESSION, [control_row(), control_row()])
        with pytest.raises(SessionNotFound):
            next(watcher)

    @pytest.mark.parametrize("waiting", [1, 2000])
    def test_a_slow_watcher_finds_the_rows_when_it_asks(self, store: Store, waiting: int) -> None:
        store.append(SESSION, [control_row()])
        watcher = store.watch(SESSION)
        seen = [row.seq for row in next(watcher)]
        store.append(SESSION, [control_row() for _ in range(waiting)])
        while len(seen) < waiting + 1:
            seen += [row.seq for row in next(watcher)]
        assert seen == list(range(1, waiting + 2))

    def test_nothing_is_lost_or_mixed_up_when_threads_write_at_once(self, store: Store) -> None:
        said: list[str] = []
        with ThreadPoolExecutor(4) as pool:
            watchers = [pool.submit(contention.watch, store, SESSION) for _ in range(2)]
            lookers = [pool.submit(contention.look, store, SESSION) for _ in range(2)]
            contention.work(store, SESSION, "thread", 8, self.appends, said.append)
            contention.finish(store, SESSION)
        rows, written = list(store.read(SESSION)), acknowledged("".join(said).splitlines())
        assert contention.problems(rows, written) == []
        assert len(written) == len(rows) - 1
        assert [watcher.result() for watcher in watchers] == [rows, rows]
        assert [looker.result() for looker in lookers] == [[], []]

    # 7: deletion

    def test_deleting_erases_the_session(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.delete(SESSION)
        assert (store.exists(SESSION), store.sessions()) == (False, [])

    def test_a_deleted_session_made_again_is_empty(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.delete(SESSION)
        assert (store.create(SESSION), store.last_seq(SESSION)) == (True, 0)
        assert store.append(SESSION, [control_row()]) == [1]

    def test_a_session_whose_turn_runs_is_not_deleted(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.acquire(SESSION, holder="me")
        with pytest.raises(SessionBusy):
            store.delete(SESSION)
        assert store.last_seq(SESSION) == 1

    # 9: to the byte

    @pytest.mark.parametrize("payload", NASTY_PAYLOADS)
    def test_a_payload_is_read_back_to_the_byte(self, store: Store, payload: bytes) -> None:
        row = control_row(payload)
        store.append(SESSION, [row])
        head = f'{{"id":"{row.id}","session_id":"{SESSION}","deployment_id":"conformance","seq":1,'
        line = f'{head}"type":"SESSION_UPDATED","payload":'.encode() + payload
        assert list(store.read_lines(SESSION)) == [line + f',"created_at":"{row.created_at}"}}'.encode()]

    @pytest.mark.parametrize("payload", NASTY_PAYLOADS)
    def test_a_payload_is_read_back_as_an_equal_value(self, store: Store, payload: bytes) -> None:
        store.append(SESSION, [control_row(payload)])
        [row] = store.read(SESSION)
        assert (row.payload, list(row.payload)) == (decode_json(payload), list(decode_json(payload)))

    @pytest.mark.parametrize("payload", [b"", b"[]", b'{"a":\n1}', b"{"])
    def test_what_is_no_object_on_one_line_is_refused(self, store: Store, payload: bytes) -> None:
        with pytest.raises(InvalidEvent):
            store.append(SESSION, [control_row(), control_row(payload)])
        assert store.last_seq(SESSION) == 0

    # Blobs

    @pytest.mark.parametrize("data", [b"", b"a\r\nb\nc\r", bytes(range(256)) * 1000])
    def test_a_blob_is_kept_under_its_digest(self, store: Store, data: bytes) -> None:
        digest = store.put_blob(SESSION, "files", data)
        again = store.put_blob(SESSION, "files", data)
        expected = hashlib.sha256(data).hexdigest()
        assert (digest, again, store.get_blob(SESSION, "files", digest)) == (expected, expected, data)

    def test_a_blob_belongs_to_its_folder_and_session(self, store: Store) -> None:
        digest = store.put_blob(SESSION, "files", b"data")
        store.create("other")
        for session_id, folder in ((SESSION, "context"), ("other", "files")):
            with pytest.raises(BlobNotFound):
                store.get_blob(session_id, folder, digest)

    @pytest.mark.parametrize("digest", ["", "0" * 64, "../../meta.json", "A" * 64])
    def test_an_unknown_digest_is_not_found(self, store: Store, digest: str) -> None:
        with pytest.raises(BlobNotFound):
            store.get_blob(SESSION, "files", digest)

    @pytest.mark.parametrize("folder", ["history", "../files", ""])
    def test_another_folder_is_refused(self, store: Store, folder: str) -> None:
        with pytest.raises(StorageError):
            store.put_blob(SESSION, folder, b"data")

    # Caches

    def test_a_cache_that_was_never_written_is_empty(self, store: Store) -> None:
        assert store.read_cache(SESSION, "view") == b""

    def test_what_is_added_to_a_cache_follows_what_is_there(self, store: Store) -> None:
        assert store.write_cache(SESSION, "view", b"one\n", after=b"")
        assert store.write_cache(SESSION, "view", b"two\n", after=b"on")
        assert store.read_cache(SESSION, "view") == b"one\ntwo\n"

    @pytest.mark.parametrize("after", [b"", b"x", b"one\nx"])
    def test_nothing_is_added_to_a_cache_that_begins_otherwise(self, store: Store, after: bytes) -> None:
        store.write_cache(SESSION, "view", b"one\n", after=None)
        assert not store.write_cache(SESSION, "view", b"two\n", after=after)
        assert store.read_cache(SESSION, "view") == b"one\n"

    def test_a_cache_is_replaced_whole(self, store: Store) -> None:
        assert store.write_cache(SESSION, "view", b"a long line\n", after=None)
        assert store.write_cache(SESSION, "view", b"new\n", after=None)
        assert store.read_cache(SESSION, "view") == b"new\n"

    def test_a_cache_belongs_to_its_name_and_session_and_goes_with_it(self, store: Store) -> None:
        store.create("other")
        store.write_cache(SESSION, "view", b"data\n", after=None)
        assert (store.read_cache(SESSION, "other"), store.read_cache("other", "view")) == (b"", b"")
        store.delete(SESSION)
        store.create(SESSION)
        assert store.read_cache(SESSION, "view") == b""

    def test_additions_to_a_cache_by_four_threads_are_each_in_one_piece(self, store: Store) -> None:
        pieces = [b"%d" % number * 10_000 + b"\n" for number in range(20)]
        store.write_cache(SESSION, "view", b"begin\n", after=None)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda data: store.write_cache(SESSION, "view", data, after=b"begin\n"), pieces))
        lines = store.read_cache(SESSION, "view").splitlines(keepends=True)
        assert (lines[0], sorted(lines[1:])) == (b"begin\n", sorted(pieces))

    @pytest.mark.parametrize("name", ["../meta.json", "", "a/b", "A", "x" * 100])
    def test_another_name_for_a_cache_is_refused(self, store: Store, name: str) -> None:
        with pytest.raises(StorageError):
            store.write_cache(SESSION, name, b"data", after=None)
        with pytest.raises(StorageError):
            store.read_cache(SESSION, name)

    # 11: change marks

    def test_a_new_session_is_marked(self, store: Store) -> None:
        store.create("Other")
        assert store.marked() == ["Other", SESSION]

    def test_a_mark_is_taken_away_by_whoever_knows_the_last_row(self, store: Store) -> None:
        store.append(SESSION, [control_row(), control_row()])
        assert ([store.unmark(SESSION, seq) for seq in (1, 3, 2)], store.marked()) == (
            [False, False, True],
            [],
        )

    def test_taking_away_a_mark_that_is_not_there_is_fine(self, store: Store) -> None:
        assert [store.unmark(SESSION, 0), store.unmark(SESSION, 0)] == [True, True]

    def test_an_append_marks_its_session_and_no_other(self, store: Store) -> None:
        store.create("other")
        store.unmark("other", 0)
        store.unmark(SESSION, 0)
        store.append(SESSION, [control_row()])
        assert store.marked() == [SESSION]

    def test_an_append_marks_again(self, store: Store) -> None:
        for seq in (1, 2, 3):
            store.append(SESSION, [control_row()])
            assert (store.marked(), store.unmark(SESSION, seq), store.marked()) == ([SESSION], True, [])

    def test_reading_and_leases_mark_nothing(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.unmark(SESSION, 1)
        store.release(store.acquire(SESSION, holder="me"))
        assert ([row.seq for row in store.read(SESSION)], store.marked()) == ([1], [])

    def test_a_deleted_session_is_marked_until_somebody_knows(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.unmark(SESSION, 1)
        store.delete(SESSION)
        assert (store.marked(), store.unmark(SESSION, 99), store.marked()) == ([SESSION], True, [])

    def test_a_session_made_again_keeps_its_mark(self, store: Store) -> None:
        store.append(SESSION, [control_row()])
        store.delete(SESSION)
        store.create(SESSION)
        assert (store.unmark(SESSION, 1), store.marked()) == (False, [SESSION])

    def test_a_session_without_a_mark_has_no_row_that_its_unmarking_did_not_know(self, store: Store) -> None:
        known: list[int] = []
        done = threading.Event()

        def unmark() -> None:
            while not done.is_set():
                last = store.last_seq(SESSION)
                if store.unmark(SESSION, last):
                    known.append(last)

        with ThreadPoolExecutor(4) as pool:
            unmarking = [pool.submit(unmark) for _ in range(2)]
            appending = [pool.submit(_append_often, store) for _ in range(2)]
            for appended in appending:
                appended.result()
            done.set()
            for unmarked in unmarking:
                unmarked.result()
        assert store.marked() == [SESSION] or max(known) == store.last_seq(SESSION) == 200

    def test_the_census_changes_when_sessions_come_or_go_or_is_empty(self, store: Store) -> None:
        seen = [store.census()]
        store.create("other")
        seen.append(store.census())
        store.delete("other")
        seen.append(store.census())
        told = [census for census in seen if census]
        assert len(set(told)) == len(told)

    # Closing

    def test_closing_finishes_what_was_submitted(self, store: Store) -> None:
        futures = [store.submit(SESSION, [control_row()]) for _ in range(20)]
        store.close()
        assert [future.result(timeout=0) for future in futures] == [[n] for n in range(1, 21)]

    def test_a_closed_store_refuses_appends_and_closing_again_is_fine(self, store: Store) -> None:
        store.close()
        store.close()
        with pytest.raises(StorageError, match="closed"):
            store.append(SESSION, [control_row()])


def _append_often(store: Store) -> None:
    for _ in range(100):
        store.append(SESSION, [control_row()])


def _watch_until(store: Store, last: int, after: int) -> list[int]:
    seen: list[int] = []
    for batch in store.watch(SESSION, after):
        seen += [row.seq for row in batch]
        if seen[-1] >= last:
            return seen
    return seen
