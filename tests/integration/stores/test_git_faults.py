"""Full and read-only disks, hostile ids and planted links, forks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from segue.errors import InvalidSessionId, SegueError, SessionBusy, SessionNotFound, StorageError
from segue.stores.git import GitStore
from segue.stores.protocol import Store
from segue.testing.conformance import BAD_IDS
from segue.testing.store_process import control_row, turn_row

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # forking is the point here

BIG = b'{"title":"' + b"x" * 200_000 + b'"}'


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(store: Store) -> tuple[int, StorageError]:
    """Append until the disk is full; gives the last acknowledged seq and the error."""
    last = 0
    for _ in range(20):
        try:
            last = store.append("s1", [control_row(BIG), control_row(BIG)])[-1]
        except StorageError as error:
            return last, error
    raise AssertionError("the disk never got full")


def test_a_full_disk_is_an_error_that_leaves_no_half_row(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, closing(GitStore(disk / "sessions")) as store:
        store.create("s1")
        last, error = fill(store)
        assert "ENOSPC" in str(error)
        assert str(disk) in str(error)
        assert [row.seq for row in store.read("s1")] == list(range(1, last + 1))
        lines = (disk / "sessions" / "s1" / "history" / f"{1:012d}.jsonl").read_bytes().splitlines()
        assert len(lines) == last


def test_a_session_goes_on_once_there_is_space_again(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, closing(GitStore(disk / "sessions")) as store:
        store.create("s1")
        (disk / "ballast").write_bytes(b"x" * 300_000)
        last, _ = fill(store)
        (disk / "ballast").unlink()
        assert store.append("s1", [control_row()]) == [last + 1]
        assert [row.seq for row in store.read("s1")] == list(range(1, last + 2))


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """The folder, seen through a read-only mount."""
    for command in (["mount", "--bind", path, path], ["mount", "-o", "remount,bind,ro", path]):
        if os.geteuid() != 0 or subprocess.run(list(map(str, command)), capture_output=True).returncode:
            pytest.skip("mounting read-only needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_read_only_storage_is_readable_and_says_why_it_cannot_be_written(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    with closing(GitStore(root)) as store:
        store.create("s1")
        store.append("s1", [control_row()])
    with read_only(root), closing(GitStore(root)) as store:
        assert [row.seq for row in store.read("s1")] == [1]
        operations: tuple[Callable[[], object], ...] = (
            lambda: store.append("s1", [control_row()]),
            lambda: store.create("s2"),
            lambda: store.acquire("s1", holder="me"),
            lambda: store.put_blob("s1", "files", b"data"),
        )
        for operation in operations:
            with pytest.raises(StorageError, match=r"EROFS.*SEGUE_HOME") as error:
                operation()
            assert str(root) in str(error.value)


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_no_id_reaches_outside_the_root(tmp_path: Path) -> None:
    (tmp_path / "victim" / "history").mkdir(parents=True)
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "planted").symlink_to(tmp_path / "victim")
    with closing(GitStore(tmp_path / "sessions")) as store:
        operations: tuple[Callable[[str], object], ...] = (
            store.create,
            store.delete,
            lambda name: store.append(name, [control_row()]),
            lambda name: list(store.read(name)),
            lambda name: store.acquire(name, holder="me"),
            lambda name: store.put_blob(name, "files", b"data"),
        )
        before = snapshot(tmp_path)
        for operation in operations:
            for bad in BAD_IDS:
                with pytest.raises(InvalidSessionId):
                    operation(bad)
            with pytest.raises((SessionNotFound, StorageError)):
                operation("planted")
        assert (snapshot(tmp_path), store.sessions()) == (before, [])


def in_child(work: Callable[[], None]) -> int:
    """Run it in a forked child; 0 when it raised nothing."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def expect(error: type[SegueError], work: Callable[[], object]) -> None:
    with pytest.raises(error):
        work()


def _append_second(store: Store) -> None:
    assert store.append("s1", [control_row()]) == [2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        yield store


def test_a_forked_child_can_append_and_the_parent_goes_on(store: GitStore) -> None:
    store.append("s1", [control_row()])
    assert in_child(lambda: _append_second(store)) == 0
    assert store.append("s1", [control_row()]) == [3]


def test_a_forked_child_does_not_have_the_lease(store: GitStore) -> None:
    store.acquire("s1", holder="the parent")
    assert in_child(lambda: expect(SessionBusy, lambda: store.acquire("s1", holder="the child"))) == 0


def test_a_forked_child_that_closes_its_store_leaves_the_parent_its_lease(store: GitStore) -> None:
    lease = store.acquire("s1", holder="the parent")
    assert in_child(store.close) == 0
    assert "the parent" in (store.holder("s1") or "")
    assert store.append("s1", [turn_row()], lease=lease) == [1]


def test_a_forked_child_that_lives_on_does_not_keep_the_lease(store: GitStore) -> None:
    lease = store.acquire("s1", holder="the parent")
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        store.release(lease)
        assert store.acquire("s1", holder="the next one").epoch == lease.epoch + 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_child_forked_while_threads_append_can_append(store: GitStore) -> None:
    futures = [store.submit("s1", [control_row()]) for _ in range(200)]
    codes = [in_child(lambda: store.append("s1", [control_row()]) and None) for _ in range(5)]
    assert [future.result()[0] for future in futures] == sorted(future.result()[0] for future in futures)
    assert (codes, [row.seq for row in store.read("s1")]) == ([0] * 5, list(range(1, 206)))


def test_a_session_deleted_by_another_store_is_not_found(store: GitStore) -> None:
    store.append("s1", [control_row()])
    with closing(GitStore(store.root)) as other:
        other.delete("s1")
    expect(SessionNotFound, lambda: store.append("s1", [control_row()]))
    expect(SessionNotFound, lambda: store.last_seq("s1"))


def test_a_session_deleted_and_made_again_by_another_store_is_the_new_one(store: GitStore) -> None:
    store.append("s1", [control_row(), control_row()])
    with closing(GitStore(store.root)) as other:
        other.delete("s1")
        other.create("s1")
    assert store.append("s1", [control_row()]) == [1]


def test_hundreds_of_sessions_do_not_keep_their_files_open(store: GitStore) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        store.create(f"n{number}")
        store.append(f"n{number}", [control_row()])
    assert len(os.listdir("/proc/self/fd")) - before < 64 * 4 + 20
    assert store.append("n0", [control_row()]) == [2]


def test_a_busy_append_lock_does_not_stop_readers(store: GitStore) -> None:
    store.append("s1", [control_row()])
    with closing(GitStore(store.root)) as other, store._session("s1")._tail.locked():  # type: ignore[union-attr]
        start = time.monotonic()
        assert [row.seq for row in other.read("s1")] == [1]
        assert time.monotonic() - start < 5


def test_a_row_is_visible_only_once_it_is_synced(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    sync = os.fdatasync

    def spy(descriptor: int) -> None:
        with closing(GitStore(store.root)) as other:
            seen.append(other.last_seq("s1"))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", spy)
    store.append("s1", [control_row()])
    store.append("s1", [control_row(), control_row()])
    assert (seen, store.last_seq("s1")) == ([0, 1], 3)


def test_rows_whose_sync_failed_are_gone_and_the_next_append_takes_their_place(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append("s1", [control_row(b'{"title":"one"}')])

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StorageError, match="EIO"):
            store.append("s1", [control_row(b'{"title":"lost"}')])
    assert store.append("s1", [control_row(b'{"title":"two"}')]) == [2]
    with closing(GitStore(store.root)) as other:
        assert [row.payload["title"] for row in other.read("s1")] == ["one", "two"]
        assert other.reports("s1") == []
