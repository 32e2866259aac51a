"""Locks and leases when their holder is stopped, killed, forked, or robbed of its files."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from segue.errors import SessionBusy, SessionNotFound, StaleWriter, StorageError
from segue.stores.git import GitStore, commits, lease, leases, locks
from segue.stores.git.removal import remove
from segue.testing.store_process import control_row, turn_row

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # forking is the point here

PROGRAM = Path(__file__).parents[2] / "programs" / "holds.py"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        store.append("s1", [control_row()])
        yield store


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is held for half a second is held too long."""
    monkeypatch.setattr(locks, "LOCK_SECONDS", 0.5)


@contextmanager
def holding(store: GitStore, how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(PROGRAM), str(store.root), "s1", how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def stopped_inside(store: GitStore, what: str) -> Iterator[subprocess.Popen[str]]:
    """A process that was stopped inside an append or a commit."""
    with holding(store, what) as child:
        assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        yield child


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


# A process that is stopped while it has a lock


@pytest.mark.usefixtures("impatient")
def test_an_append_does_not_wait_for_ever_for_a_process_stopped_inside_one(store: GitStore) -> None:
    with stopped_inside(store, "append") as child:
        with pytest.raises(
            SessionBusy, match=f"process {child.pid}, which is stopped, .* nothing was written"
        ):
            store.append("s1", [control_row()])
        assert [row.seq for row in store.read("s1")] == [1]


@pytest.mark.usefixtures("impatient")
def test_appends_go_on_once_the_stopped_process_does(store: GitStore) -> None:
    with stopped_inside(store, "append") as child:
        with pytest.raises(SessionBusy):
            store.append("s1", [control_row()])
        child.send_signal(signal.SIGCONT)
        assert line(child) == "appended"
        assert store.append("s1", [control_row()]) == [3]


@pytest.mark.usefixtures("impatient")
def test_appends_go_on_once_the_stopped_process_is_dead(store: GitStore) -> None:
    with stopped_inside(store, "append") as child:
        with pytest.raises(SessionBusy):
            store.append("s1", [control_row()])
        child.kill()
        child.wait()
        # what it wrote is whole, though it was never acknowledged
        assert store.append("s1", [control_row()]) == [3]


@pytest.mark.usefixtures("impatient")
def test_whoever_needs_the_append_lock_gives_up_on_a_process_stopped_inside_an_append(
    store: GitStore,
) -> None:
    with stopped_inside(store, "append") as child:
        operations: tuple[Callable[[], object], ...] = (
            lambda: store.acquire("s1", holder="me"),
            lambda: store.delete("s1"),
            lambda: store.repair("s1"),
            lambda: store.verify("s1"),
        )
        for operation in operations:
            with pytest.raises(SessionBusy, match=f"process {child.pid}"):
                operation()
        assert store.holder("s1") is None


def test_readers_and_watchers_do_not_wait_for_a_process_stopped_inside_an_append(store: GitStore) -> None:
    with stopped_inside(store, "append"), closing(GitStore(store.root)) as other:
        assert (other.last_seq("s1"), [row.seq for row in other.read("s1")]) == (1, [1])
        assert [row.seq for row in next(other.watch("s1"))] == [1]
        assert other.unmark("s1", 1) is False


def test_a_reader_does_not_wait_for_an_append_of_its_own_process_that_waits(store: GitStore) -> None:
    with stopped_inside(store, "append") as child:
        waiting = store.submit("s1", [control_row()])
        assert (store.last_seq("s1"), [row.seq for row in store.read("s1")]) == (1, [1])
        child.kill()
        child.wait()
        assert waiting.result(timeout=60) == [3]


@pytest.mark.usefixtures("impatient")
def test_a_commit_gives_up_on_a_process_stopped_inside_one_and_is_made_up_for(
    store: GitStore, caplog: pytest.LogCaptureFixture
) -> None:
    with stopped_inside(store, "commit") as child, caplog.at_level(logging.WARNING):
        store.commit("s1", "first")
        assert store.drain_commits(60)
        assert f"process {child.pid}, which is stopped" in caplog.text
        assert not (store.root / "s1" / ".git" / "refs").exists()
    store.commit("s1", "second")
    assert store.drain_commits(60)
    assert (store.root / "s1" / ".git" / "refs").exists()


@pytest.mark.usefixtures("impatient")
def test_a_session_is_not_made_while_a_process_is_stopped_inside_making_one(store: GitStore) -> None:
    with stopped_inside(store, "create") as child:
        with pytest.raises(SessionBusy, match=f"process {child.pid}, which is stopped"):
            store.create("s2")
        assert store.append("s1", [control_row()]) == [2]
        child.kill()
        child.wait()
        assert store.create("s2")


def test_who_is_only_unlucky_goes_on_waiting_while_others_make_progress(tmp_path: Path) -> None:
    signs = iter(range(3))
    path = tmp_path / "lock"
    mine, theirs = locks.open_lock(path), locks.open_lock(path)
    try:
        assert locks.try_lock(theirs)

        def sign() -> int:
            number = next(signs)
            if number == 2:
                locks.fcntl.flock(theirs, locks.fcntl.LOCK_UN)
            return number

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks, "LOCK_SECONDS", 0.0)
            locks.lock(mine, "it", sign)
        assert list(signs) == []
    finally:
        locks.unlock(mine)
        locks.unlock(theirs)


class Unlucky:
    """Stands for `time` in `locks`: whenever somebody waits for the lock, a minute passes.

    In it, whoever has the lock frees it, gets its work done, and has it again. After three it is left free.
    """

    def __init__(self, path: Path, work: Callable[[], object]) -> None:
        self.work, self.now, self.looks = work, 0.0, 0
        self.theirs = locks.open_lock(path)
        fcntl.flock(self.theirs, fcntl.LOCK_EX)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.looks += 1
        self.now += 60
        fcntl.flock(self.theirs, fcntl.LOCK_UN)
        self.work()
        if self.looks < 3:
            fcntl.flock(self.theirs, fcntl.LOCK_EX)


@pytest.mark.parametrize(
    ("what", "wants"),
    [
        ("append", lambda store: store.release(store.acquire("s1", holder="me"))),
        ("append", lambda store: store.repair("s1")),
        ("commit", lambda store: store.verify("s1")),
        ("commit", lambda store: store.repair("s1")),
        ("commit", lambda store: store.delete("s1")),
    ],
    ids=["append-turn", "append-repair", "commit-verify", "commit-repair", "commit-delete"],
)
def test_whoever_finds_a_lock_taken_at_every_look_waits_while_those_who_have_it_get_on(
    store: GitStore, monkeypatch: pytest.MonkeyPatch, what: str, wants: Callable[[GitStore], object]
) -> None:
    with closing(GitStore(store.root)) as other:
        session = other._session("s1")

        def work() -> None:
            number = other.append("s1", [control_row()])
            if what == "commit":
                commits._commit_whole(session, [f"row {number}"])

        other.commit("s1", "the first rows")
        assert other.drain_commits(60)
        unlucky = Unlucky(store.root / "s1" / "lock" / what, work)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(locks, "time", unlucky)
                wants(store)
        finally:
            locks.unlock(unlucky.theirs)
        assert unlucky.looks == 3


def test_who_gives_the_commit_lock_back_gets_it_again_after_those_who_wait(store: GitStore) -> None:
    paths, order = store._session("s1").paths, []

    def verify() -> None:
        with locks.nobody_commits(paths):
            order.append("the one who waits")

    with ThreadPoolExecutor(1) as pool:
        for _ in range(20):
            with locks.commit_lock(paths):
                waiting = pool.submit(verify)
                deadline = time.monotonic() + 60
                while is_free(paths.next_lock):
                    assert time.monotonic() < deadline, "who waits does not queue"
                    time.sleep(0.001)
            with locks.commit_lock(paths):
                order.append("the greedy one")
            waiting.result(timeout=60)
    assert order == ["the one who waits", "the greedy one"] * 20


def is_free(path: Path) -> bool:
    descriptor = locks.open_lock(path)
    try:
        return locks.try_lock(descriptor)
    finally:
        locks.unlock(descriptor)


def test_a_file_system_without_locks_is_an_error_that_says_so(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_locks)
        for operation in (
            lambda: store.append("s1", [control_row()]),
            lambda: store.acquire("s1", holder="me"),
        ):
            with pytest.raises(StorageError, match=r"ENOLCK.*SEGUE_HOME"):
                operation()
    assert [row.seq for row in store.read("s1")] == [1]


# A process that dies while it has the lease


@pytest.mark.parametrize("how", ["fork", "spawn", "pool"])
def test_the_lease_of_a_dead_process_is_free_though_its_child_lives(store: GitStore, how: str) -> None:
    with holding(store, how) as parent:
        child = int(line(parent))
        try:
            with pytest.raises(SessionBusy, match="the parent"):
                store.acquire("s1", holder="me")
            parent.kill()
            parent.wait()
            os.kill(child, 0)  # it lives
            assert store.acquire("s1", holder="me").epoch == 2
        finally:
            os.kill(child, signal.SIGKILL)


def take_turn(store: GitStore) -> None:
    held = store.acquire("s1", holder="me")
    store.append("s1", [turn_row()], lease=held)
    store.release(held)


@pytest.mark.parametrize(
    "work",
    [
        take_turn,
        lambda store: store.holder("s1"),
        lambda store: store.unmark("s1", 1),
        lambda store: store.create("s2"),
        lambda store: store.verify("s1"),
        lambda store: (store.commit("s1", "turn"), store.drain_commits(60)),
    ],
    ids=["turn", "holder", "unmark", "create", "verify", "commit"],
)
def test_a_child_forked_just_after_a_lock_was_taken_or_freed_does_not_have_it(
    store: GitStore, work: Callable[[GitStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit("s1", "turn")
    assert store.drain_commits(60)
    children: list[int] = []
    flock = fcntl.flock

    def then_fork(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", then_fork)
            work(store)
        store.close()
        assert children
        monkeypatch.setattr(locks, "LOCK_SECONDS", 0.5)
        with closing(GitStore(store.root)) as other:
            take_turn(other)
            assert other.create("s3")
            other.repair("s1")
            other.delete("s1")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_holder_in_another_container_is_named_with_its_host(store: GitStore) -> None:
    code = (
        "import socket, signal; socket.sethostname('the-box'); from segue.stores.git import GitStore;"
        f"GitStore({str(store.root)!r}).acquire('s1', holder='cli'); print('held', flush=True); signal.pause()"
    )
    command = ["unshare", "--uts", "--pid", "--fork", "--kill-child", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            if line(child) != "held":
                pytest.skip("a container of our own needs root")
            with pytest.raises(SessionBusy, match=r"busy: cli \(process 1 on the-box, since"):
                store.acquire("s1", holder="me")
        finally:
            child.kill()


# Files that are taken away from under a holder


def moved_away(path: Path) -> None:
    path.rename(path.with_name("away"))


def put_in_place(path: Path) -> None:
    (path.parent / "new").write_bytes(path.read_bytes())
    os.replace(path.parent / "new", path)


TAKEN_AWAY = pytest.mark.parametrize("take_away", [Path.unlink, moved_away, put_in_place])


@TAKEN_AWAY
def test_a_holder_whose_lease_file_was_taken_away_is_fenced_by_the_next_one(
    store: GitStore, take_away: Callable[[Path], None]
) -> None:
    mine = store.acquire("s1", holder="me")
    store.append("s1", [turn_row()], lease=mine)
    take_away(store.root / "s1" / "lock" / "turn")
    with closing(GitStore(store.root)) as other:
        theirs = other.acquire("s1", holder="the next one")
        with pytest.raises(StaleWriter):
            store.append("s1", [turn_row()], lease=mine)
        assert other.append("s1", [turn_row()], lease=theirs) == [3]
        store.release(mine)
        assert "the next one" in (store.holder("s1") or "")


def test_a_lease_whose_file_was_removed_admits_nothing(store: GitStore) -> None:
    mine = store.acquire("s1", holder="me")
    store.append("s1", [turn_row()], lease=mine)
    (store.root / "s1" / "lock" / "turn").unlink()
    with pytest.raises(StaleWriter):
        store.append("s1", [turn_row()], lease=mine)


@TAKEN_AWAY
def test_writers_agree_on_the_next_lock_when_it_was_taken_away(
    store: GitStore, take_away: Callable[[Path], None]
) -> None:
    with closing(GitStore(store.root)) as other:
        assert other.append("s1", [control_row()]) == [2]
        take_away(store.root / "s1" / "lock" / "append")
        futures = [writer.submit("s1", [control_row()]) for _ in range(50) for writer in (store, other)]
        assert sorted(future.result()[0] for future in futures) == list(range(3, 103))


def test_a_removed_folder_of_locks_is_made_again(store: GitStore) -> None:
    shutil.rmtree(store.root / "s1" / "lock")
    with closing(GitStore(store.root)) as other:
        lease = other.acquire("s1", holder="me")
        assert other.append("s1", [turn_row()], lease=lease) == [2]
        assert store.append("s1", [control_row()]) == [3]
        with pytest.raises(SessionBusy):
            store.acquire("s1", holder="the next one")


def test_a_process_that_waits_for_a_lease_is_told_when_the_session_is_deleted(store: GitStore) -> None:
    held, paths = store.acquire("s1", holder="me"), store._session("s1").paths
    with closing(GitStore(store.root)) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.acquire, "s1", holder="the next one", wait=60)
        while not store._leases._queue.has_others(paths):
            time.sleep(0.001)
        remove(paths)
        store._leases.abandon(held)
        with pytest.raises(SessionNotFound):
            waiting.result(timeout=60)


# Taking turns


def test_a_process_that_takes_turn_after_turn_gives_way_to_one_that_waits(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "GIVE_WAY", 60.0)
    paths = store._session("s1").paths
    with closing(GitStore(store.root)) as other, ThreadPoolExecutor(1) as pool:

        def turn() -> int:
            lease = other.acquire("s1", holder="the next one", wait=60)
            other.release(lease)
            return lease.epoch

        held, epochs = store.acquire("s1", holder="the greedy one"), []
        for _ in range(10):
            theirs = pool.submit(turn)
            while not store._leases._queue.has_others(paths):
                time.sleep(0.001)
            store.release(held)
            held = store.acquire("s1", holder="the greedy one", wait=60)
            epochs += [theirs.result(timeout=60), held.epoch]
    assert epochs == list(range(2, 22))


def test_a_clock_that_jumps_changes_nothing(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    held = store.acquire("s1", holder="me")
    for now in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        monkeypatch.setattr(lease, "utc_now", lambda now=now: now)
        monkeypatch.setattr(time, "time", lambda now=now: float(now[:4]) * 31e6)
        with closing(GitStore(store.root)) as other, pytest.raises(SessionBusy, match="me"):
            other.acquire("s1", holder="the next one", wait=0.05)
        assert store.append("s1", [turn_row()], lease=held) == [store.last_seq("s1")]
    store.release(held)
    assert store.acquire("s1", holder="me").epoch == held.epoch + 1
