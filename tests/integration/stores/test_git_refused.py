"""An append that raised is not there: not for this process, not for any other, not later."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from damage import titled, verify

from segue.errors import StorageError
from segue.stores.git import GitStore

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "sessions"
    with closing(GitStore(root)) as store:
        store.create("s1")
    return root


def titles(root: Path) -> list[str]:
    with closing(GitStore(root)) as store:
        return [row.payload["title"] for row in store.read("s1")]


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    """These calls of `os` fail as a broken disk lets them."""

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(os, name, fail)
        yield


def refuse(store: GitStore, number: int) -> None:
    with pytest.raises(StorageError, match="EIO"):
        store.append("s1", [titled(number)])


SETS = [("fdatasync",), ("fdatasync", "ftruncate"), ("fdatasync", "ftruncate", "fsync", "unlink")]


@pytest.mark.parametrize("names", SETS, ids=lambda names: "+".join(names))
@pytest.mark.parametrize("before", [0, 1], ids=["first append", "second append"])
def test_the_same_process_goes_on_without_the_refused_row(
    root: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], before: int
) -> None:
    with closing(GitStore(root)) as store:
        for number in range(before):
            store.append("s1", [titled(number)])
        with failing(monkeypatch, *names):
            refuse(store, 7)
            assert [row.payload["title"] for row in store.read("s1")] == ["title 0"][:before]
        assert store.append("s1", [titled(8)]) == [before + 1]
    assert titles(root) == [*["title 0"][:before], "title 8"]
    assert verify(root) == []


@pytest.mark.parametrize("names", SETS, ids=lambda names: "+".join(names))
@pytest.mark.parametrize("before", [0, 1], ids=["first append", "second append"])
def test_another_process_never_publishes_the_refused_row(
    root: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], before: int
) -> None:
    """The one whose append was refused dies without having written again."""
    store = GitStore(root)
    for number in range(before):
        store.append("s1", [titled(number)])
    with failing(monkeypatch, *names):
        refuse(store, 7)
        store.close()
    assert titles(root) == ["title 0"][:before]
    with closing(GitStore(root)) as other:
        assert other.append("s1", [titled(8)]) == [before + 1]
    assert titles(root) == [*["title 0"][:before], "title 8"]
    assert verify(root) == []


def test_rows_that_cannot_be_cut_off_are_noted_as_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GitStore(root)
    store.append("s1", [titled(0)])
    with failing(monkeypatch, "fdatasync", "ftruncate"):
        refuse(store, 7)
        (problem,) = verify(root)
        store.close()
    assert (problem.kind, problem.note) == ("torn_append", True)
    assert "an append that failed" in problem.detail


def test_nothing_is_written_while_a_refused_row_cannot_be_cut_off(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(GitStore(root)) as store:
        store.append("s1", [titled(0)])
        with failing(monkeypatch, "fdatasync", "ftruncate"):
            refuse(store, 7)
        with failing(monkeypatch, "ftruncate"):
            refuse(store, 8)
            store._session("s1").close_if_idle()
            refuse(store, 9)
        assert store.append("s1", [titled(10)]) == [2]
    assert titles(root) == ["title 0", "title 10"]


def test_a_row_whose_publication_failed_is_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(GitStore(root)) as store:
        store.append("s1", [titled(0)])
        with failing(monkeypatch, "pwrite"):
            refuse(store, 7)
        assert store.append("s1", [titled(8)]) == [2]
    assert titles(root) == ["title 0", "title 8"]


def test_a_fence_does_not_outlive_the_append_that_comes_after_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss that took the position back, rows acknowledged since the fence must be found."""
    with closing(GitStore(root)) as store:
        store.append("s1", [titled(0)])
        with failing(monkeypatch, "fdatasync", "ftruncate"):
            refuse(store, 7)
        position = (root / "s1" / "acknowledged").read_bytes()[:96]
        store.append("s1", [titled(8)])
        now = (root / "s1" / "acknowledged").read_bytes()
    (root / "s1" / "acknowledged").write_bytes(position + now[96:])
    assert titles(root) == ["title 0", "title 8"]


# --- the real thing: the system calls of another process fail ---------------------------------------------------------

STRACE = shutil.which("strace")
PROGRAM = """
import sys
from damage import titled
from segue.errors import StorageError
from segue.stores.git import GitStore
store = GitStore(sys.argv[1], commits=False)
for number in range(6):
    try:
        store.append("s1", [titled(number), titled(number)])
        print(f"title {number}", flush=True)
    except StorageError as error:
        print(error, file=sys.stderr, flush=True)
"""


def appending(root: Path, *prefix: str, limit: int = 0) -> subprocess.CompletedProcess[str]:
    support = os.pathsep.join([str(Path(__file__).parents[2] / "support"), *sys.path])

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [*prefix, sys.executable, "-c", PROGRAM, str(root)],
        env=os.environ | {"PYTHONPATH": support},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limited if limit else None,
    )


FAULTS = [
    ["fdatasync:error=EIO:when=2"],
    ["fdatasync:error=EIO:when=2+2"],
    ["fdatasync:error=EIO:when=2+"],
    ["fdatasync:error=EIO:when=3..4", "ftruncate:error=EIO"],
    ["fdatasync:error=EIO:when=3", "ftruncate:error=EIO:when=1"],
    ["fdatasync:error=ENOSPC:when=1", "ftruncate:error=EROFS", "unlink:error=EROFS"],
    ["pwrite64:error=EIO:when=2"],
    ["fsync:error=EIO:when=1"],
]


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: " ".join(faults))
def test_a_failing_disk_loses_no_acknowledged_row_and_shows_no_refused_one(
    root: Path, faults: list[str], tmp_path: Path
) -> None:
    injected = [word for fault in faults for word in ("-e", f"inject={fault}")]
    done = appending(root, str(STRACE), "-f", "-qq", "-o", str(tmp_path / "trace"), *injected)
    if "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 0, done.stderr
    assert "(INJECTED)" in (tmp_path / "trace").read_text()
    acknowledged = [title for title in done.stdout.splitlines() for _ in range(2)]
    assert titles(root) == acknowledged
    assert [problem for problem in verify(root) if not problem.note] == []


def test_a_limit_on_the_size_of_files_is_an_error_that_leaves_no_part_of_a_row(root: Path) -> None:
    done = appending(root, limit=1000)
    acknowledged = [title for title in done.stdout.splitlines() for _ in range(2)]
    assert (len(acknowledged), titles(root)) == (4, acknowledged)
    assert "File too large (EFBIG)" in done.stderr
    assert verify(root) == []
