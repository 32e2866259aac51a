"""Crashes, damage, full and forbidden storage, hostile ids, git's locks and configuration: what must come of them.

On the memory store those scenarios apply only that are not about files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from damage import verify
from scenario_inputs import FOLDER, facts, small_disk, written

import segue
from segue.errors import CorruptJournal, InvalidSessionId, SessionBusy, SessionNotFound, StorageError
from segue.events import (
    InvocationStarted,
    MessageStart,
    NoMoreActions,
    SessionUpdated,
)
from segue.fold.conversation import Conversation
from segue.journal import Journal
from segue.models.scripted import Scripted
from segue.session.db import SessionDB
from segue.session.runtime import Runtime
from segue.stores.git import GitStore
from segue.stores.git.locks import commit_lock
from segue.stores.memory import MemoryStore
from segue.stores.protocol import Store
from segue.testing.conformance import BAD_IDS
from segue.testing.validity import provider_problems

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def segment(root: Path) -> Path:
    return root / "s1" / "history" / f"{1:012d}.jsonl"


def run_program(
    home: Path, *arguments: str, prefix: Sequence[str] = (), **options: Any
) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "segue", *arguments]
    environment = os.environ | {"SEGUE_HOME": str(home)}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60, **options
    )


# --- B031 -------------------------------------------------------------------------------------------------------------


def test_b031_a_last_line_cut_at_any_byte_is_dropped_and_the_next_append_is_whole(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    with closing(GitStore(root, commits=False)) as store:
        journal = written(store, *facts("B031.jsonl"))
        lease = journal.acquire(holder="test")
        good = segment(root).read_bytes()
        position = (root / "s1" / "acknowledged").read_bytes()
        journal.append(MessageStart(message_id="m2 Zwölf 🦊", role="assistant"), lease=lease)
        last = segment(root).read_bytes()[len(good) :]
    assert good.count(b"\n") == 4
    for cut in range(1, len(last)):
        segment(root).write_bytes(good + last[:cut])
        (root / "s1" / "acknowledged").write_bytes(position)
        with closing(GitStore(root, commits=False)) as store:
            before = [row.seq for row in store.read("s1")]
            appended = Journal(store, "s1").append(SessionUpdated(title="the next"))
            reports = store.reports("s1")
        with closing(GitStore(root, commits=False)) as store:
            after = [(row.seq, row.type) for row in store.read("s1")][-2:]
        assert (before, appended, after) == ([1, 2, 3, 4], [5], [(4, "MESSAGE_END"), (5, "SESSION_UPDATED")])
        assert [f"dropped a torn append of {cut} bytes" in report for report in reports] == [True]


# --- B033 -------------------------------------------------------------------------------------------------------------


def damaged(kind: str, lines: list[bytes]) -> list[bytes]:
    """Seven rows, damaged behind the fourth as the input has it, or in another way."""
    nul = next(line for line in (FOLDER / "B033.jsonl").read_bytes().split(b"\n") if line.startswith(b"\0"))
    between = {
        "nul line": [nul + b"\n", lines[4]],
        "duplicate seq": [lines[3], lines[4]],
        "seq gap": [],
        "bit flip": [lines[4].replace(b'"m2"', b'"m3"')],
    }
    return [*lines[:4], *between[kind], *lines[5:]]


KINDS = {"nul line": 5, "duplicate seq": 5, "seq gap": 5, "bit flip": 0}
"""Kind of damage -> the line that the error names; a line that still parses only the commits can name."""


@pytest.fixture
def with_damage(home: Path, request: pytest.FixtureRequest) -> Path:
    """The input in the default sessions, committed, then damaged; gives their folder."""
    root = home / "sessions"
    with closing(GitStore(root)) as store:
        written(store, *facts("B033.jsonl"))
        store.commit("s1", "t1")
        store.drain_commits(30)
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(b"".join(damaged(request.param, lines)))
    return root


@pytest.mark.parametrize("with_damage", KINDS, indirect=True)
def test_b033_damage_in_the_middle_is_refused_with_its_place_and_never_read_as_a_prefix(
    with_damage: Path, request: pytest.FixtureRequest
) -> None:
    before = segment(with_damage).read_bytes()
    db = SessionDB(GitStore(with_damage))
    with closing(db):
        with pytest.raises(CorruptJournal) as reading:
            list(db.read("s1"))
        with pytest.raises(CorruptJournal), segue.session_context("s1", db=db):
            pass
        with pytest.raises(CorruptJournal):
            db.update_session("s1", title="new")
    line = KINDS[request.node.callspec.params["with_damage"]]
    offset = len(b"".join(before.splitlines(keepends=True)[:4])) if line else 0
    assert (reading.value.line, reading.value.offset) == (line, offset)
    assert reading.value.path == str(segment(with_damage))
    assert segment(with_damage).read_bytes() == before


@pytest.mark.parametrize("with_damage", KINDS, indirect=True)
def test_b033_the_program_says_what_is_wrong_and_repairs_it_with_a_backup(with_damage: Path) -> None:
    home, bad = with_damage.parent, segment(with_damage).read_bytes()
    shown = run_program(home, "sessions", "show", "s1")
    assert (shown.returncode, "`segue sessions repair s1`" in shown.stderr) == (1, True)
    checked = run_program(home, "sessions", "verify", "s1")
    assert (checked.returncode, "line 5 (byte" in checked.stdout) == (1, True)
    repaired = run_program(home, "sessions", "repair", "s1")
    assert repaired.returncode == 0
    backup = Path(repaired.stdout.rsplit(" ", 1)[1].strip())
    assert (backup / "history" / segment(with_damage).name).read_bytes() == bad
    assert run_program(home, "sessions", "verify", "s1").stdout == "s1: whole\n"
    with closing(GitStore(with_damage)) as store:
        assert [row.seq for row in store.read("s1")] == list(range(1, 8))
        texts = [m["content"] for m in Journal(store, "s1").view(Conversation).messages()]
    assert texts[-1] == "two"


# --- B039 -------------------------------------------------------------------------------------------------------------


class Effects:
    """A turn whose disk gets full between its first model call, and the second or the tool that the first asks for."""

    def __init__(self, disk: Path) -> None:
        self.disk, self.count = disk, 0
        self.model = Scripted(["one", "two", "three"])

    def run(self, db: SessionDB, *, fill: bool) -> str:
        @segue.agentic_function
        def work(runtime: Any = None) -> str:
            """Answer."""
            first: str = runtime.exec("first")
            if fill:
                self._fill()
            runtime.exec("second" * 1000)
            self.count += 1
            return first

        with segue.session_context("s1", db=db, runtime=Runtime(self.model)):
            result: str = work()
            return result

    def run_tool(self, db: SessionDB, *, fill: bool) -> str:
        def full(arguments: dict[str, Any]) -> bool:
            """Looked at when the call is recorded, and before it starts. No approval is needed."""
            if fill:
                self._fill()
                with pytest.raises(StorageError):
                    while True:  # what is left of the segment's last block
                        db.update_session("s1", pinned=True)
            return False

        @segue.tool(needs_approval=full)
        def effect() -> str:
            """Do it."""
            self.count += 1
            return "done"

        self.model = Scripted([{"tool_calls": [{"name": "effect", "arguments": {}}]}, "did it"])
        with segue.session_context("s1", db=db, runtime=Runtime(self.model)) as session:
            assert session.runtime is not None
            answer: str = session.runtime.exec("go", tools=[effect])
            return answer

    def _fill(self) -> None:
        with open(self.disk / "ballast", "wb", buffering=0) as ballast:
            for size in (1 << 16, 1):
                with pytest.raises(OSError, match="No space"):
                    while True:
                        ballast.write(b"x" * size)


def test_b039_a_full_disk_stops_the_turn_before_the_next_action_and_it_goes_on_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        db, effects = SessionDB(GitStore(disk / "sessions")), Effects(disk)
        with closing(db):
            with pytest.raises(StorageError, match=r"No space left.*ENOSPC.*free some space") as error:
                effects.run(db, fill=True)
            assert str(disk) in str(error.value)
            assert (effects.count, len(effects.model.requests)) == (0, 1)
            kept = list(db.store.read_lines("s1"))
            (disk / "ballast").unlink()
            assert effects.run(db, fill=False) == "two"
            assert list(db.store.read_lines("s1"))[: len(kept)] == kept
            messages = db.journal("s1").view(Conversation).messages()
            assert provider_problems(messages) == []
            stopped, completed = [turn.status for turn in db.turns("s1").all]
            assert (stopped in ("failed", "interrupted"), completed) == (True, "completed")
        assert [problem for problem in verify(disk / "sessions") if not problem.note] == []


def test_b039_a_tool_whose_start_cannot_be_recorded_does_not_run(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, closing(SessionDB(GitStore(disk / "sessions"))) as db:
        effects = Effects(disk)
        with pytest.raises(StorageError, match="ENOSPC"):
            effects.run_tool(db, fill=True)
        assert (effects.count, len(effects.model.requests)) == (0, 1)
        (disk / "ballast").unlink()
        assert (effects.run_tool(db, fill=False), effects.count) == ("did it", 1)
        assert provider_problems(db.journal("s1").view(Conversation).messages()) == []


FILLING = """
import segue

@segue.agentic_function
def work(runtime=None) -> str:
    "Answer."
    runtime.exec("first")
    with open("{ballast}", "wb", buffering=0) as ballast:
        for size in (1 << 16, 1):
            try:
                while True:
                    ballast.write(b"x" * size)
            except OSError:
                pass
    return runtime.exec("second" * 1000)
"""


def test_b039_the_program_ends_with_1_the_cause_and_no_hint_to_continue(tmp_path: Path) -> None:
    (tmp_path / "filling.py").write_text(FILLING.format(ballast=tmp_path / "disk" / "ballast"))
    (tmp_path / "answers.json").write_text('{"replies": ["one", "two"]}')
    with small_disk(tmp_path / "disk") as disk:
        arguments = ("run", "filling:work", "--session", "s1", "--model", "scripted:answers.json")
        done = run_program(disk, *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{disk}/sessions/s1" in done.stderr
        assert "ENOSPC" in done.stderr
        assert "free some space" in done.stderr
        assert "continue with" not in done.stderr
        assert "Traceback" not in done.stderr


def obeying() -> list[str]:
    """What runs a command so that file modes bind it, also for root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root ignores modes, and there is no setpriv")
    drop = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", drop, "--inh-caps", drop]


@pytest.mark.parametrize("place", ["unwritable folder", "file", "dangling link", "too deep"])
def test_b039_a_place_that_cannot_be_written_fails_at_once_and_names_the_variable(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "program.py").write_text("def work() -> str:\n    return 'done'\n")
    (tmp_path / "locked").mkdir(mode=0o555)
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "at all")
    homes = {
        "unwritable folder": tmp_path / "locked" / "home",
        "file": tmp_path / "file",
        "dangling link": tmp_path / "dangling",
        "too deep": tmp_path / Path(*["d" * 200] * 25),
    }
    started = time.monotonic()
    done = run_program(homes[place], "run", "program:work", prefix=obeying(), cwd=tmp_path)
    assert (done.returncode in (1, 2), done.stdout, "SEGUE_HOME" in done.stderr) == (True, "", True), (
        done.stderr
    )
    assert "continue with" not in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - started < 30


# --- B040 -------------------------------------------------------------------------------------------------------------

EXTRA_IDS = ("a/../../b", "%2e%2e%2f", "; drop table", "--upload-pack=x", "refs/heads/x", "a\\..\\b")


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("kind", ["memory", "git"])
def test_b040_an_id_that_is_a_path_is_refused_by_everything_before_any_io(tmp_path: Path, kind: str) -> None:
    (tmp_path / "victim" / "history").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "planted").symlink_to(tmp_path / "victim")
    store: Store = GitStore(tmp_path / "root") if kind == "git" else MemoryStore()
    db = SessionDB(store)
    operations: tuple[Callable[[str], object], ...] = (
        store.create,
        store.exists,
        store.delete,
        lambda bad: list(store.read(bad)),
        lambda bad: store.append(bad, []),
        lambda bad: store.acquire(bad, holder="me"),
        lambda bad: store.put_blob(bad, "files", b"data"),
        db.create_session,
        db.get_session,
        db.delete_session,
        lambda bad: segue.session_context(bad, db=db).__enter__(),
    )
    before = snapshot(tmp_path)
    with closing(store):
        for bad in {*BAD_IDS, *EXTRA_IDS}:
            for operation in operations:
                with pytest.raises(InvalidSessionId):
                    operation(bad)
        for operation in operations[3:7]:
            with pytest.raises((SessionNotFound, StorageError)):
                operation("planted")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "bad", ["../x", "/etc/passwd", "..", ".git", "a\nb", "; drop table", "--upload-pack=x"]
)
def test_b040_the_program_refuses_it_as_usage(home: Path, tmp_path: Path, bad: str) -> None:
    (tmp_path / "program.py").write_text("def work() -> str:\n    return 'done'\n")
    before = snapshot(tmp_path)
    for arguments in (["run", "program:work", f"--session={bad}"], ["sessions", "show", "--", bad]):
        done = run_program(home, *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
    after = {name: found for name, found in snapshot(tmp_path).items() if "__pycache__" not in name}
    assert {name for name in after if not name.startswith(str(home))} == set(before)


# --- B043 -------------------------------------------------------------------------------------------------------------

GIT = shutil.which("git")
CLEAN = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}
LOCKS = ("index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock")


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(GIT), "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=folder, env=CLEAN, capture_output=True, text=True, check=False)


def turn(store: GitStore, number: int) -> None:
    written(
        store,
        InvocationStarted(invocation_id=f"i{number}", turn_id=f"t{number}", reason={"kind": "direct_call"}),
        NoMoreActions(turn_id=f"t{number}"),
    )
    store.commit("s1", f"t{number}")
    assert store.drain_commits(30)


def is_clean(root: Path) -> bool:
    checked = git(root / "s1", "fsck", "--full", "--strict", "--no-dangling")
    return (checked.returncode, checked.stdout) == (0, "") and verify(root) == []


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_b043_locks_that_a_dead_git_left_stop_neither_appends_nor_commits(root: Path) -> None:
    with closing(GitStore(root)) as store:
        turn(store, 1)
        for name in LOCKS:
            (root / "s1" / ".git" / name).touch()
        turn(store, 2)
        assert [row.seq for row in store.read("s1")] == [1, 2, 3, 4]
        for name in LOCKS:
            os.utime(root / "s1" / ".git" / name, (0, 0))
        turn(store, 3)
    assert git(root / "s1", "log", "--format=%s").stdout.split() == ["t3", "t2", "t1"]
    assert [(root / "s1" / ".git" / name).exists() for name in LOCKS] == [False] * 4
    assert is_clean(root)


def killed_in_commit(root: Path, number: int) -> bool:
    """A turn whose process is killed at its n-th replaced file of the commit. False when there are fewer."""
    child = os.fork()
    if child == 0:
        replace, count = os.replace, 0

        def dying(source: Any, target: Any) -> None:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)

        os.replace = dying  # type: ignore[assignment]
        try:
            store = GitStore(root)
            turn(store, 2)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_b043_a_process_killed_anywhere_in_a_commit_loses_nothing(root: Path, tmp_path: Path) -> None:
    with closing(GitStore(root)) as store:
        turn(store, 1)
    shutil.copytree(root, tmp_path / "start")
    number = 1
    while killed_in_commit(root, number):
        with closing(GitStore(root)) as store:
            assert [row.seq for row in store.read("s1")] == [1, 2, 3, 4]
            turn(store, 3)
        assert git(root / "s1", "log", "--format=%s").stdout.split()[0] == "t3"
        assert is_clean(root), number
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "start", root)
        number += 1
    assert number > 8


def test_b043_appends_do_not_wait_for_a_living_commit(root: Path) -> None:
    with closing(GitStore(root)) as store:
        journal = written(store, *facts("B031.jsonl"))
        with commit_lock(store._session("s1").paths):
            store.commit("s1", "later")
            journal.append(SessionUpdated(title="at once"))
            assert journal.last_seq == 5
        assert store.drain_commits(30)


def test_b043_a_living_holder_is_waited_for_within_bounds_and_then_named(root: Path) -> None:
    with closing(GitStore(root)) as store, closing(GitStore(root)) as other:
        store.create("s1")
        lease = store.acquire("s1", holder="the living one")
        with pytest.raises(SessionBusy, match="the living one"):
            other.acquire("s1", holder="me", wait=0.2)
        threading.Timer(0.3, store.release, [lease]).start()
        assert other.acquire("s1", holder="me", wait=30).epoch == lease.epoch + 1


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_b043_gc_in_a_loop_beside_a_writer_loses_nothing(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(GitStore(root)) as store:
        turn(store, 0)
        stop, codes = threading.Event(), list[int]()

        def collect() -> None:
            while not stop.is_set():
                codes.append(git(root / "s1", "gc", "-q", "--prune=now").returncode)

        collector = threading.Thread(target=collect)
        collector.start()
        number = 0
        while number < 40 or codes.count(0) < 3:
            number += 1
            turn(store, number)
        stop.set()
        collector.join()
        turn(store, number + 1)
        assert [row.seq for row in store.read("s1")] == list(range(1, 2 * (number + 2) + 1))
    assert "made again" not in caplog.text
    assert is_clean(root)


# --- B044 -------------------------------------------------------------------------------------------------------------

CONFIG = """\
[core]
  autocrlf = true
  hooksPath = {home}/hooks
  attributesFile = {home}/attributes
[commit]
  gpgsign = true
[gpg]
  program = {home}/hooks/pre-commit
[user]
  useConfigOnly = true
[init]
  templateDir = {home}/template
  defaultObjectFormat = sha256
[safe]
  bareRepository = explicit
[filter "evil"]
  clean = touch {home}/ran
"""
APPENDING = """\
import sys
sys.path[:0] = {path!r}
from scenario_inputs import written
from segue.events import ToolResult
from segue.stores.git import GitStore
store = GitStore(sys.argv[1])
written(store, ToolResult(tool_call_id="c", result="a\\r\\nb\\nc\\r"))
store.put_blob("s1", "files", b"a\\r\\nb\\nc\\r")
store.commit("s1", "t1")
store.close()
"""


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@pytest.mark.parametrize("inside", [False, True], ids=["elsewhere", "sessions inside another repository"])
def test_b044_the_users_git_has_no_say_and_bytes_stay_bytes(tmp_path: Path, inside: bool) -> None:
    home, victim = tmp_path / "home", tmp_path / "victim"
    root = victim / "sessions" if inside else tmp_path / "sessions"
    for folder in (home / "hooks", home / "template" / "hooks", victim):
        folder.mkdir(parents=True)
    (home / ".gitconfig").write_text(CONFIG.format(home=home))
    (home / "attributes").write_text("* filter=evil text=auto\n")
    for name in ("pre-commit", "post-commit", "reference-transaction", "pre-auto-gc"):
        for folder in (home / "hooks", home / "template" / "hooks"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {home}/ran\nexit 1\n")
            (folder / name).chmod(0o755)
    git(victim, "init", "-q")
    before = tree_hash(victim / ".git")
    hostile = {
        **os.environ,
        "HOME": str(home),
        "PATH": "/nonexistent",
        "GIT_DIR": str(victim / ".git"),
        "GIT_WORK_TREE": str(victim),
        "GIT_INDEX_FILE": str(victim / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(victim / ".git" / "objects"),
        "GIT_AUTHOR_DATE": "garbage",
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
    }
    program = APPENDING.format(path=[path for path in sys.path if path])
    subprocess.run([sys.executable, "-c", program, str(root)], env=hostile, check=True)
    with closing(GitStore(root)) as store:
        (row,) = store.read("s1")
        (blob,) = [path for path in (root / "s1" / "files").rglob("*") if path.is_file()]
    assert (row.payload["result"], blob.read_bytes()) == ("a\r\nb\nc\r", b"a\r\nb\nc\r")
    assert git(root / "s1", "log", "--format=%an <%ae> %s").stdout == "Segue <segue@localhost> t1\n"
    assert (
        git(root / "s1", "cat-file", "-p", f"HEAD:history/00/00/00/{1:012d}.jsonl").stdout.count("a\\r\\nb")
        == 1
    )
    assert is_clean(root)
    assert (tree_hash(victim / ".git"), (home / "ran").exists()) == (before, False)
