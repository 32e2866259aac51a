"""Storage that is full, forbidden, slow, or lacks what is needed: each operation says so, and nothing is half done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from damage import titled, verify
from scenario_inputs import small_disk

from segue.errors import StorageError
from segue.stores.git import GitStore
from segue.stores.ids import folder_of

STRACE = shutil.which("strace")
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


@contextmanager
def ext4(path: Path, *options: str) -> Iterator[Path]:
    """A small ext4 in a file, which needs root and a loop device."""
    image = path.with_suffix(".img")
    with open(image, "wb") as file:
        file.truncate(8 << 20)
    path.mkdir()
    for command in (
        ["mkfs.ext4", "-q", *options, str(image)],
        ["mount", "-o", "loop", str(image), str(path)],
    ):
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip(f"{command[0]} {' '.join(options)} does not work here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Take every byte, and every file."""
    with open(path / "ballast", "wb", buffering=0) as ballast:
        for size in (1 << 16, 1):
            with pytest.raises(OSError, match="No space"):
                while True:
                    ballast.write(b"x" * size)


def empty(path: Path) -> None:
    (path / "ballast").unlink()


OPERATIONS: dict[str, Callable[[GitStore], object]] = {
    "append": lambda store: store.append("s1", [titled(n) for n in range(500)]),
    "append to a new session": lambda store: store.append("s2", [titled(n) for n in range(500)]),
    "blob": lambda store: store.put_blob("s1", "files", b"x" * 100_000),
    "create": lambda store: store.create("s3"),
    "lease": lambda store: store.acquire("s2", holder="me"),
    "rotate": lambda store: [store.append("s1", [titled(n)]) for n in range(200)],
    "cache": lambda store: store.write_cache("s1", "fold", b"x" * 100_000, after=None),
    "repair": lambda store: store.repair("s1"),
}


@pytest.mark.parametrize("system", ["tmpfs", "ext4"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_on_a_full_disk_an_operation_fails_whole_and_works_once_there_is_space(
    tmp_path: Path, name: str, system: str
) -> None:
    making = small_disk if system == "tmpfs" else ext4
    with making(tmp_path / "disk") as disk, closing(GitStore(disk / "sessions", segment_bytes=2000)) as store:
        for session_id in ("s1", "s2"):
            store.create(session_id)
        store.append("s1", [titled(0)])
        kept = list(store.read_lines("s1"))
        if name == "repair":
            (disk / "sessions" / "s1" / "meta.json").write_bytes(b"{")
        fill(disk)
        try:
            OPERATIONS[name](store)
        except StorageError as error:
            assert "No space left on device (ENOSPC): free some space" in str(error)  # noqa: PT017
        assert list(store.read_lines("s1"))[:1] == kept
        empty(disk)
        OPERATIONS[name](store)
        assert list(store.read_lines("s1"))[:1] == kept
        for session_id in store.sessions():
            assert [found for found in store.verify(session_id) if not found.note] == []


@pytest.mark.parametrize("system", ["tmpfs", "ext4"])
def test_a_commit_that_a_full_disk_stopped_is_made_up_for(tmp_path: Path, system: str) -> None:
    making = small_disk if system == "tmpfs" else ext4
    with making(tmp_path / "disk") as disk, closing(GitStore(disk / "sessions")) as store:
        store.create("s1")
        store.append("s1", [titled(n) for n in range(100)])
        fill(disk)
        store.commit("s1", "lost")
        assert store.drain_commits(30)
        empty(disk)
        store.append("s1", [titled(100)])
        store.commit("s1", "made up for")
        assert store.drain_commits(30)
        assert store.verify("s1") == []
        branch = (disk / "sessions" / "s1" / ".git" / "refs" / "heads" / "main").read_text()
        assert len(branch) == 41


# --- other systems, by making system calls fail or wait ---------------------------------------------------------------

PROGRAM = """
import sys
sys.path[:0] = {path!r}
from damage import titled
from segue.errors import SegueError
from segue.stores.git import GitStore
store = GitStore(sys.argv[1])
try:
    store.create("s1")
    with_lease = store.acquire("s1", holder="me")
    print(store.append("s1", [titled(1), titled(2)]))
    store.release(with_lease)
    store.commit("s1", "t1")
except SegueError as error:
    print(type(error).__name__, error)
store.close()
"""


def traced(root: Path, *injected: str) -> str:
    options = [word for fault in injected for word in ("-e", f"inject={fault}")]
    program = PROGRAM.format(path=[path for path in sys.path if path])
    command = [
        str(STRACE),
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        *options,
        sys.executable,
        "-c",
        program,
        str(root),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_strace
@pytest.mark.parametrize("error", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_a_file_system_without_locks_is_refused_with_what_to_do(tmp_path: Path, error: str) -> None:
    said = traced(tmp_path / "sessions", f"flock:error={error}")
    assert said.startswith("StorageError cannot ")
    assert f"({'ENOTSUP' if error == 'EOPNOTSUPP' else error})" in said
    assert "SEGUE_HOME" in said


@needs_strace
def test_a_slow_file_system_is_only_slow(tmp_path: Path) -> None:
    calls = ("fdatasync", "fsync", "rename", "pwrite64", "ftruncate")
    assert traced(tmp_path / "sessions", *(f"{call}:delay_enter=30000" for call in calls)) == "[1, 2]\n"
    assert verify(tmp_path / "sessions") == []


# --- forbidden --------------------------------------------------------------------------------------------------------

FORBIDDEN = """
import os, sys
sys.path[:0] = {path!r}
from damage import titled
from segue.errors import SegueError
from segue.stores.git import GitStore
root = sys.argv[1]
store = GitStore(root, segment_bytes=500)
print(store.append("s1", [titled(1)]))
for path in (root + "/s1/history", root + "/s1/lock", root + "/s1/files", root + "/.dirty", root + "/s1", root):
    os.chmod(path, int(sys.argv[2], 8))
for work in (
    lambda: store.append("s1", [titled(2), titled(3)]),
    lambda: store.append("s1", [titled(4)]),
    lambda: store.create("s2"),
    lambda: store.put_blob("s1", "files", b"data"),
    lambda: store.acquire("s1", holder="me"),
    lambda: list(store.read("s1")),
    lambda: GitStore(root).last_seq("s1"),
    lambda: GitStore(root).sessions(),
):
    try:
        print(work())
    except SegueError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("mode", ["0500", "0000"])
def test_permissions_that_are_lost_in_the_middle_are_told_and_nothing_acknowledged_is_lost(
    tmp_path: Path, mode: str
) -> None:
    root = tmp_path / "sessions"
    with closing(GitStore(root)) as store:
        store.create("s1")
    program = FORBIDDEN.format(path=[path for path in sys.path if path])
    drop = "-dac_override,-dac_read_search"
    prefix = ["setpriv", "--bounding-set", drop, "--inh-caps", drop] if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("root ignores modes, and there is no setpriv")
    done = subprocess.run(
        [*prefix, sys.executable, "-c", program, str(root), mode], capture_output=True, text=True, check=False
    )
    for path in (
        root,
        root / ".dirty",
        root / "s1",
        *(root / "s1" / name for name in ("history", "lock", "files")),
    ):
        path.chmod(0o700)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    acknowledged = sum(
        len(line.split(",")) for line in said[:3] if line.startswith("[") and "Envelope" not in line
    )
    with closing(GitStore(root)) as store:
        assert store.last_seq("s1") == acknowledged
        assert store.append("s1", [titled(9)]) == [acknowledged + 1]
    assert verify(root) == []
    refusals = [line for line in said if line.startswith("StorageError")]
    assert len(refusals) >= 3
    assert all(
        "Permission denied (EACCES): permission denied; change the owner or the mode" in line
        for line in refusals
    )
    assert not [line for line in said if "NotFound" in line]


def test_a_session_on_a_read_only_file_system_can_be_verified(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with closing(GitStore(disk / "sessions")) as store:
            store.create("s1")
            store.append("s1", [titled(1)])
            store.commit("s1", "t1")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with closing(GitStore(disk / "sessions")) as store:
            assert store.verify("s1") == []
            with pytest.raises(StorageError, match=r"EROFS.*SEGUE_HOME"):
                store.repair("s1")


@pytest.mark.parametrize("flag", ["i", "a"])
def test_a_segment_that_was_made_unchangeable_loses_nothing(tmp_path: Path, flag: str) -> None:
    """With `a` rows can be added, but a torn append cannot be cut off; with `i` neither."""
    with ext4(tmp_path / "disk") as disk:
        root = disk / "sessions"
        with closing(GitStore(root)) as store:
            store.create("s1")
            store.append("s1", [titled(1)])
        segment = root / "s1" / "history" / f"{1:012d}.jsonl"
        whole = segment.read_bytes()
        segment.write_bytes(whole + b'{"id":"evt_')
        subprocess.run(["chattr", f"+{flag}", str(segment)], check=True)
        with closing(GitStore(root)) as store:
            assert [row.seq for row in store.read("s1")] == [1]
            with pytest.raises(StorageError, match="EPERM"):
                store.append("s1", [titled(2)])
            subprocess.run(["chattr", f"-{flag}", str(segment)], check=True)
            assert store.append("s1", [titled(3)]) == [2]
        assert segment.read_bytes().startswith(whole)
        assert verify(root) == []


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with spaces", "Zwölf 🦊 'quoted\" $HOME", "-rf", "a\nb", "d" * 200])
def test_sessions_can_be_kept_under_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "program.py").write_text("def work() -> str:\n    return 'done'\n")
    environment = os.environ | {"SEGUE_HOME": f"./{name}/deeper"}  # not absolute: from the current folder
    command = [sys.executable, "-m", "segue"]
    done = subprocess.run(
        [*command, "run", "program:work", "--session", "s1"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (tmp_path / name / "deeper" / "sessions" / "s1" / "history").is_dir()
    checked = subprocess.run(
        [*command, "sessions", "verify", "--all"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (checked.returncode, checked.stdout) == (0, "s1: whole\n")


IDS = ("MyId", "myid", "MYID", "myId", "a.B", "A.b", "a.b")


def test_a_file_system_that_ignores_case_keeps_sessions_apart(tmp_path: Path) -> None:
    with ext4(tmp_path / "disk", "-O", "casefold", "-E", "encoding=utf8") as disk:
        (disk / "root").mkdir()
        subprocess.run(["chattr", "+F", str(disk / "root")], check=True)
        with closing(GitStore(disk / "root")) as store:
            for session_id in IDS:
                assert store.create(session_id)
                store.append(session_id, [titled(1)])
            assert store.sessions() == sorted(IDS)
            assert [store.last_seq(session_id) for session_id in IDS] == [1] * len(IDS)


def test_no_two_ids_have_folders_that_differ_by_case_only() -> None:
    """What holds where no such file system can be mounted: everything Segue names is in small letters."""
    folders = [folder_of(session_id) for session_id in IDS]
    assert len({folder.casefold() for folder in folders}) == len(IDS)
    assert folders == [folder.lower() for folder in folders]
