"""Watching a session that others write: who tells, what it costs, and what may happen to the files meanwhile."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from segue.errors import CorruptJournal, SessionNotFound
from segue.events.envelope import Envelope
from segue.ids import new_id, utc_now
from segue.stores.git import GitStore, announcing, following, watching
from segue.stores.git.bell import Bell
from segue.stores.git.layout import write_new
from segue.stores.protocol import Draft, Stop, Store
from segue.testing.store_process import control_row

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.skipif(announcing.inotify_simple is None, reason="there is no inotify here"),
]

NEVER = 600.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        yield store


@pytest.fixture
def other(store: GitStore) -> Iterator[GitStore]:
    """Another store on the same folder, as another process has it: nothing of it can wake the first one."""
    with closing(GitStore(store.root)) as other:
        yield other


@pytest.fixture(autouse=True)
def alone() -> None:
    """The thread of the test before ends a moment after its last watch."""
    for thread in watch_threads():
        thread.join(60)


@pytest.fixture
def never_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not told of a row does not find it."""
    monkeypatch.setattr(watching, "CHECK", NEVER)
    monkeypatch.setattr(watching, "POLL", (NEVER, NEVER))


class Watch:
    """A thread that watches until it has seen row `last`, or is stopped."""

    def __init__(self, store: Store, last: int, session_id: str = "s1", after: int = 0) -> None:
        self.rows: list[Envelope] = []
        self.batches: list[int] = []
        self.stop = Stop()
        self._last, self._seen = last, threading.Condition()
        self._pool = ThreadPoolExecutor(1)
        watch = store.watch(session_id, after, stop=self.stop)
        self._done: Future[None] = self._pool.submit(self._run, watch)

    def _run(self, watch: Iterator[list[Envelope]]) -> None:
        for batch in watch:
            with self._seen:
                self.rows += batch
                self.batches.append(len(batch))
                self._seen.notify_all()
            if batch[-1].seq >= self._last:
                return

    def until(self, seq: int) -> None:
        with self._seen:
            assert self._seen.wait_for(lambda: bool(self.rows) and self.rows[-1].seq >= seq, 60)

    def seqs(self) -> list[int]:
        """All it saw, once it is done."""
        self._done.result(timeout=60)
        self._pool.shutdown()
        return [row.seq for row in self.rows]


def inotify_descriptors() -> int:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.islink(link)].count("anon_inode:inotify")


def watch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "segue-watch"]


# Who tells


@pytest.mark.usefixtures("never_looks")
def test_the_kernel_tells_of_rows_that_others_write(store: GitStore, other: GitStore) -> None:
    store.append("s1", [control_row()])
    watch = Watch(store, 4)
    watch.until(1)
    for number in (2, 3, 4):
        other.append("s1", [control_row()])
        watch.until(number)
    assert watch.seqs() == [1, 2, 3, 4]


@pytest.mark.usefixtures("never_looks")
def test_a_stop_ends_the_wait_at_once_and_another_event_soon(store: GitStore) -> None:
    ends: list[threading.Event] = [Stop(), threading.Event()]
    with ThreadPoolExecutor(2) as pool:
        store.append("s1", [control_row()])
        watches = [store.watch("s1", stop=stop) for stop in ends]
        assert [len(next(watch)) for watch in watches] == [1, 1]
        waiting = [pool.submit(list, watch) for watch in watches]
        for stop in ends:
            stop.set()
        assert [watch.result(timeout=60) for watch in waiting] == [[], []]


def test_where_there_is_no_inotify_watchers_poll(
    store: GitStore, other: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "inotify_simple", None)
    store.append("s1", [control_row()])
    watch = Watch(store, 2)
    watch.until(1)
    other.append("s1", [control_row()])
    assert (watch.seqs(), watch_threads()) == ([1, 2], [])


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_when_inotify_has_reached_its_limits_watchers_poll(
    store: GitStore,
    other: GitStore,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(announcing.inotify_simple.INotify, "add_watch", full)
    with caplog.at_level(logging.INFO):
        store.append("s1", [control_row()])
        watch = Watch(store, 2)
        watch.until(1)
        other.append("s1", [control_row()])
        assert watch.seqs() == [1, 2]
    assert "is watched by polling" in caplog.text
    assert (inotify_descriptors(), watch_threads()) == (0, [])


def test_where_inotify_is_silent_watchers_find_out_and_poll(
    store: GitStore, other: GitStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(announcing.Announcer, "_hear", lambda self, event: None)
    monkeypatch.setattr(watching, "CHECK", 0.05)
    with caplog.at_level(logging.INFO):
        watch = Watch(store, 40)
        for number in range(1, 41):
            other.append("s1", [control_row()])
            watch.until(number)
        assert watch.seqs() == list(range(1, 41))
    assert "inotify does not tell" in caplog.text


def test_when_the_kernel_lost_events_all_are_told_to_look(tmp_path: Path) -> None:
    announcer, bells = announcing.Announcer(), [Bell(), Bell()]
    numbers = []
    for name, bell in zip("ab", bells, strict=True):
        (tmp_path / name).mkdir()
        numbers.append(announcer.announce(tmp_path / name, bell))
    lost = announcing.inotify_simple.Event(-1, announcing.inotify_simple.flags.Q_OVERFLOW, 0, "")
    announcer._hear(lost)
    assert [bell.rings for bell in bells] == [1, 1]
    for number, bell in zip(numbers, bells, strict=True):
        assert number is not None
        announcer.cancel(number, bell)


# What it costs


def test_all_watchers_of_a_process_share_one_descriptor_and_one_thread(
    store: GitStore, other: GitStore
) -> None:
    watches = []
    for number in range(10):
        store.create(f"n{number}")
        store.append(f"n{number}", [control_row()])
        watches += [Watch(store, 2, f"n{number}"), Watch(other, 2, f"n{number}")]
    for watch in watches:
        watch.until(1)
    [thread] = watch_threads()
    assert inotify_descriptors() == 1
    for number in range(10):
        other.append(f"n{number}", [control_row()])
    assert [watch.seqs() for watch in watches] == [[1, 2]] * 20
    thread.join(60)
    assert (inotify_descriptors(), watch_threads()) == (0, [])


def test_every_byte_of_a_growing_segment_is_read_once(
    store: GitStore, other: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    pread = following.pread_all

    def counted(descriptor: int, length: int, offset: int) -> bytes:
        read.append(length)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(following, "pread_all", counted)
    path = store.root / "s1" / "history" / f"{1:012d}.jsonl"
    store.append("s1", [control_row()])
    first = path.stat().st_size
    watch = Watch(store, 201)
    watch.until(1)
    for _ in range(200):
        other.append("s1", [control_row()])
    assert watch.seqs() == list(range(1, 202))
    assert sum(read) == path.stat().st_size - first


def test_a_slow_reader_is_given_the_rows_that_wait_in_small_batches(store: GitStore, other: GitStore) -> None:
    store.append("s1", [control_row()])
    rows = store.watch("s1")
    assert [row.seq for row in next(rows)] == [1]
    other.append("s1", [control_row() for _ in range(5000)])
    seen: list[int] = []
    while len(seen) < 5000:
        batch = next(rows)
        assert len(batch) < 200
        seen += [row.seq for row in batch]
    assert seen == list(range(2, 5002))
    rows.close()  # type: ignore[attr-defined]


# What may happen meanwhile


def test_a_watcher_follows_from_segment_to_segment(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    with closing(GitStore(root, segment_bytes=1000)) as writer, closing(GitStore(root)) as reader:
        writer.create("s1")
        watch = Watch(reader, 300)
        for _ in range(100):
            writer.append("s1", [control_row(), control_row(), control_row()])
        assert watch.seqs() == list(range(1, 301))
        assert len(list((root / "s1" / "history").iterdir())) > 30


def test_a_moved_head_is_a_row_like_any_other(store: GitStore, other: GitStore) -> None:
    lease = other.acquire("s1", holder="me")
    moved = Draft(new_id("evt"), "local", "HEAD_MOVED", b'{"target_seq":1}', utc_now())
    watch = Watch(store, 3)
    for row in (control_row(), moved, control_row()):
        other.append("s1", [row], lease=lease)
    watch.seqs()
    assert [row.type for row in watch.rows] == ["SESSION_UPDATED", "HEAD_MOVED", "SESSION_UPDATED"]


def replaced(path: Path) -> None:
    """The same content in a file of its own, as a repair or a restored backup leaves it."""
    write_new(path, path.read_bytes())


@pytest.mark.parametrize(
    "names", [["acknowledged"], ["history/000000000001.jsonl"], ["acknowledged", "sealed"]]
)
def test_files_that_are_replaced_change_nothing(store: GitStore, other: GitStore, names: list[str]) -> None:
    (store.root / "s1" / "sealed").touch()
    watch = Watch(store, 60)
    for number in range(20):
        other.append("s1", [control_row()] * 3)
        watch.until(3 * number + 3)
        other._session("s1").close_if_idle()  # whoever repairs has all locks
        for name in names:
            replaced(store.root / "s1" / name)
    assert watch.seqs() == list(range(1, 61))


@pytest.mark.usefixtures("never_looks")
def snapshot(folder: Path) -> dict[Path, bytes]:
    """The rows and how far they are acknowledged, in the order to put them back."""
    return {
        path: path.read_bytes() for path in (folder / "history" / f"{1:012d}.jsonl", folder / "acknowledged")
    }


def put_back(files: dict[Path, bytes]) -> None:
    for path, data in files.items():
        write_new(path, data)


@pytest.mark.usefixtures("never_looks")
def test_rows_that_come_with_a_file_put_in_place_are_told_of(store: GitStore, other: GitStore) -> None:
    other.append("s1", [control_row()])
    before = snapshot(store.root / "s1")
    other.append("s1", [control_row()])
    after = snapshot(store.root / "s1")
    other._session("s1").close_if_idle()
    put_back(before)
    watch = Watch(store, 2)
    watch.until(1)
    put_back(after)
    assert watch.seqs() == [1, 2]


def test_a_watcher_goes_on_across_a_repair(store: GitStore, other: GitStore) -> None:
    watches = [Watch(store, 6), Watch(other, 6)]
    other.append("s1", [control_row() for _ in range(4)])
    for watch in watches:
        watch.until(4)
    path = store.root / "s1" / "history" / f"{1:012d}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"x" * len(lines[1][:-1]) + b"\n"
    path.write_bytes(b"".join(lines))
    assert other.repair("s1").backup
    store.append("s1", [control_row(), control_row()])
    assert [watch.seqs() for watch in watches] == [[1, 2, 3, 4, 5, 6]] * 2
    assert [row.type for row in store.read("s1")].count("ROW_LOST") == 1


def test_a_journal_that_is_cut_back_ends_the_watch(store: GitStore, other: GitStore) -> None:
    other.append("s1", [control_row()])
    before = snapshot(store.root / "s1")
    watch = Watch(store, 99)
    other.append("s1", [control_row()])
    watch.until(2)
    put_back(before)
    with pytest.raises(CorruptJournal, match=r"ends at row 1, though row 2 was there.*watch it anew"):
        watch.seqs()


@pytest.mark.usefixtures("never_looks")
@pytest.mark.parametrize("again", [False, True])
def test_a_session_that_another_process_deletes_ends_the_watch(
    store: GitStore, other: GitStore, again: bool
) -> None:
    store.append("s1", [control_row()])
    watch = Watch(store, 99)
    watch.until(1)
    other.delete("s1")
    if again:
        other.create("s1")
        other.append("s1", [control_row(), control_row()])
    with pytest.raises(SessionNotFound):
        watch.seqs()
    assert [row.seq for row in watch.rows] == [1]


def test_a_folder_that_is_taken_away_by_hand_ends_the_watch(store: GitStore, tmp_path: Path) -> None:
    store.append("s1", [control_row()])
    watch = Watch(store, 99)
    watch.until(1)
    os.rename(store.root / "s1", tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", store.root / "s1")
    with pytest.raises(SessionNotFound):
        watch.seqs()


def test_what_a_crash_left_unacknowledged_is_shown_to_whoever_waits(
    store: GitStore, other: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "CHECK", 0.05)
    store.append("s1", [control_row()])
    acknowledged = store.root / "s1" / "acknowledged"
    before = acknowledged.read_bytes()
    other.append("s1", [control_row()])
    other._session("s1").close_if_idle()
    store._session("s1").close_if_idle()
    acknowledged.write_bytes(before)
    watch = Watch(other, 2)
    assert watch.seqs() == [1, 2]


def in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.usefixtures("never_looks")
def test_a_forked_child_watches_with_a_descriptor_of_its_own(store: GitStore, other: GitStore) -> None:
    store.append("s1", [control_row()])
    watch = Watch(store, 3)
    watch.until(1)

    def child() -> None:
        assert inotify_descriptors() == 0
        mine = Watch(store, 2)
        mine.until(1)
        assert inotify_descriptors() == 1
        other.append("s1", [control_row()])
        assert mine.seqs() == [1, 2]

    assert in_child(child) == 0
    watch.until(2)
    other.append("s1", [control_row()])
    assert watch.seqs() == [1, 2, 3]
