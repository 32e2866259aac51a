"""The derived history: what git itself says of it."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from segue.stores.git import GitStore
from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import commit_lock
from segue.stores.git.packing import MOST_IN_SAMPLE, pack_loose
from segue.testing.store_process import control_row

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
CLEAN = {
    "PATH": os.environ.get("PATH", ""),
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=folder, env=CLEAN, capture_output=True, text=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        yield store


def turn(store: GitStore, message: str, rows: int = 3) -> None:
    store.append("s1", [control_row() for _ in range(rows)])
    store.commit("s1", message)
    assert store.drain_commits(30)


def committed(folder: Path) -> bytes:
    """The rows in the tree of the last commit, in the order of their files."""
    names = git(folder, "ls-tree", "-r", "--name-only", "HEAD", "history").stdout.split()
    return b"".join(git(folder, "show", f"HEAD:{name}").stdout.encode() for name in names)


def journal(store: GitStore) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store.root / "s1" / "history").iterdir()))


def subjects(folder: Path) -> list[str]:
    return git(folder, "log", "--format=%s").stdout.splitlines()


def test_each_settled_turn_becomes_a_commit(store: GitStore) -> None:
    turn(store, "turn_1 (code)")
    turn(store, "turn_2 (code)")
    assert subjects(store.root / "s1") == ["turn_2 (code)", "turn_1 (code)"]
    assert committed(store.root / "s1") == journal(store)


def test_git_fsck_is_clean_after_many_commits(store: GitStore) -> None:
    for number in range(120):
        if number % 3 == 0:
            store.put_blob("s1", "context", b"%d" % number)
        turn(store, f"turn_{number}", rows=20)
    checked = git(store.root / "s1", "fsck", "--full", "--strict")
    assert (checked.returncode, checked.stdout) == (0, "")
    assert (len(subjects(store.root / "s1")), committed(store.root / "s1")) == (120, journal(store))


def test_packed_objects_are_whole_and_commits_go_on(store: GitStore) -> None:
    repository = store.root / "s1" / ".git"
    for number in range(40):
        store.put_blob("s1", "context", b"%d" % number)
        turn(store, f"turn_{number}")
        if number in (15, 30):
            pack_loose(repository / "objects")
    checked = git(store.root / "s1", "fsck", "--full", "--strict")
    assert (checked.returncode, checked.stdout) == (0, "")
    assert len(list(repository.glob("objects/pack/*.pack"))) == 2
    assert (len(subjects(store.root / "s1")), committed(store.root / "s1")) == (40, journal(store))


def in_directory_17() -> Iterator[bytes]:
    """Contents of which git keeps the blobs in `objects/17`."""
    for number in itertools.count():
        content = b"%08d" % number
        if hashlib.sha1(b"blob 8\0" + content).hexdigest().startswith("17"):
            yield content


def test_loose_objects_are_packed_when_there_are_many(store: GitStore) -> None:
    repository = store.root / "s1" / ".git"
    for content in itertools.islice(in_directory_17(), 8):
        assert len(list(repository.glob("objects/17/*"))) < MOST_IN_SAMPLE
        store.put_blob("s1", "files", content)
        turn(store, "turn")
    assert len(list(repository.glob("objects/pack/*.pack"))) == 1
    assert (len(subjects(store.root / "s1")), committed(store.root / "s1")) == (8, journal(store))


def test_a_clone_has_rows_blobs_and_meta(store: GitStore, tmp_path: Path) -> None:
    data = b"a\r\nb\nc\r\0"
    digest = store.put_blob("s1", "files", data)
    turn(store, "turn_1")
    assert git(tmp_path, "clone", "-q", str(store.root / "s1"), "clone").returncode == 0
    files = {path.name: path.read_bytes() for path in (tmp_path / "clone").rglob("*") if path.is_file()}
    assert files[digest] == data
    assert files[f"{1:012d}.jsonl"] == journal(store)
    assert files["meta.json"] == (store.root / "s1" / "meta.json").read_bytes()


def test_a_stray_reset_is_refused(store: GitStore) -> None:
    turn(store, "turn_1")
    before = journal(store)
    refused = git(store.root / "s1", "reset", "--hard")
    assert (refused.returncode != 0, journal(store)) == (True, before)


def test_a_commit_without_anything_new_is_not_made(store: GitStore) -> None:
    turn(store, "turn_1")
    store.commit("s1", "again")
    store.drain_commits(30)
    assert subjects(store.root / "s1") == ["turn_1"]


def test_turns_that_settle_while_a_commit_waits_become_one_commit(store: GitStore) -> None:
    with commit_lock(SessionPaths(store.root, "s1")):
        for number in range(20):
            store.append("s1", [control_row()])
            store.commit("s1", f"turn_{number}")
    assert store.drain_commits(30)
    assert (len(subjects(store.root / "s1")), committed(store.root / "s1")) == (1, journal(store))


def test_what_a_crash_kept_from_being_committed_is_in_the_next_commit(store: GitStore) -> None:
    with closing(GitStore(store.root, commits=False)) as crashing:
        crashing.append("s1", [control_row(), control_row()])
        digest = crashing.put_blob("s1", "files", b"data")
    turn(store, "turn_2")
    assert committed(store.root / "s1") == journal(store)
    assert digest in git(store.root / "s1", "ls-tree", "-r", "--name-only", "HEAD").stdout


def test_closing_makes_the_commits_that_were_asked_for(tmp_path: Path) -> None:
    with closing(GitStore(tmp_path / "sessions")) as store:
        store.create("s1")
        store.append("s1", [control_row()])
        store.commit("s1", "turn_1")
    assert subjects(tmp_path / "sessions" / "s1") == ["turn_1"]


@pytest.mark.parametrize(
    "damage", ["no .git", "empty branch", "empty objects", "no objects", "unknown commit"]
)
def test_a_damaged_history_is_made_again_from_the_journal(store: GitStore, damage: str) -> None:
    digest = store.put_blob("s1", "files", b"data")
    turn(store, "turn_1")
    repository = store.root / "s1" / ".git"
    if damage == "no .git":
        shutil.rmtree(repository)
    elif damage == "empty branch":
        (repository / "refs/heads/main").write_bytes(b"")
    elif damage == "empty objects":
        for path in repository.glob("objects/??/*"):
            path.chmod(0o600)
            path.write_bytes(b"")
    elif damage == "no objects":
        shutil.rmtree(repository / "objects")
    else:
        (repository / "refs/heads/main").write_text("1" * 40)
    turn(store, "turn_2")
    checked = git(store.root / "s1", "fsck", "--full", "--strict")
    assert (checked.returncode, committed(store.root / "s1")) == (0, journal(store))
    assert digest in git(store.root / "s1", "ls-tree", "-r", "--name-only", "HEAD").stdout


def test_lock_files_left_behind_stop_nothing_and_old_ones_are_removed(store: GitStore) -> None:
    turn(store, "turn_1")
    repository = store.root / "s1" / ".git"
    names = ("index.lock", "HEAD.lock", "refs/heads/main.lock")
    for name in names:
        (repository / name).touch()
    turn(store, "turn_2")
    kept = [(repository / name).exists() for name in names]
    for name in names:
        os.utime(repository / name, (time.time() - 3600,) * 2)
    turn(store, "turn_3")
    removed = [not (repository / name).exists() for name in names]
    assert (subjects(store.root / "s1")[0], kept, removed) == ("turn_3", [True] * 3, [True] * 3)


def test_git_gc_beside_us_loses_nothing(store: GitStore) -> None:
    for number in range(5):
        turn(store, f"turn_{number}")
        assert git(store.root / "s1", "gc", "-q", "--prune=now").returncode == 0
    assert (len(subjects(store.root / "s1")), committed(store.root / "s1")) == (5, journal(store))


def tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


HOSTILE_CONFIG = """\
[core]
  autocrlf = true
  hooksPath = {home}/hooks
[commit]
  gpgsign = true
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
PROGRAM = """\
import sys
from segue.stores.git import GitStore
from segue.testing.store_process import control_row
store = GitStore(sys.argv[1])
store.create("s1")
store.put_blob("s1", "files", b"a\\r\\nb\\nc\\r")
store.append("s1", [control_row(b'{"title":"a\\\\r\\\\nb\\\\nc\\\\r"}')])
store.commit("s1", "turn_1")
store.close()
"""


def test_the_users_git_configuration_and_environment_have_no_say(tmp_path: Path) -> None:
    home, victim, root = tmp_path / "home", tmp_path / "victim", tmp_path / "sessions"
    for folder in (home / "hooks", home / "template" / "hooks", victim):
        folder.mkdir(parents=True)
    (home / ".gitconfig").write_text(HOSTILE_CONFIG.format(home=home))
    for folder in (home / "hooks", home / "template" / "hooks"):
        for name in ("pre-commit", "post-commit", "reference-transaction"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {home}/ran\nexit 1\n")
            (folder / name).chmod(0o755)
    git(victim, "init", "-q")
    before = tree_hash(victim)
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
    subprocess.run([sys.executable, "-c", PROGRAM, str(root)], env=hostile, check=True)
    with closing(GitStore(root)) as store:
        assert [row.payload for row in store.read("s1")] == [{"title": "a\r\nb\nc\r"}]
        assert committed(root / "s1") == journal(store)
    assert git(root / "s1", "log", "--format=%an <%ae> %s").stdout == "Segue <segue@localhost> turn_1\n"
    assert (tree_hash(victim), (home / "ran").exists()) == (before, False)
