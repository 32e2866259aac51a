"""Commits: the rows and blobs since the last one as a few new objects, whatever the session's length.

The tree: meta.json, `history/AA/BB/CC/<seq of the first row>.jsonl` (AABBCC are the seq's thousands) and
`context|files/AA/BB/CC/<SHA-256>` (thousands of 20 times the blob's number). No directory has more than about
a hundred entries, so neither bytes nor time of a commit grow.

The message's last two lines say up to where the journal and the blob log are in the tree. So what a crash
kept from being committed is simply part of the next commit.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pygit2
from pygit2.enums import ObjectType

from segue.errors import BlobNotFound, StorageError
from segue.stores.git import blobs, repository, restarts
from segue.stores.git.collecting import no_collector
from segue.stores.git.layout import SessionPaths
from segue.stores.git.locks import commit_lock
from segue.stores.git.objects import LARGE, DamagedObject, Objects, Written, add_path, format_commit
from segue.stores.git.packing import pack_when_many
from segue.stores.git.segments import lines_after, segments_after
from segue.stores.git.session import GitSession

CHUNK_ROWS = 1000
"""Rows of one history file in the tree, at most."""
ON_ITS_WAY = 0.05
"""Seconds that a blob may take from its note in the log to its place."""
PAUSES = (0.05, 0.25, 0.0)
"""Seconds after each try of a commit that found an object missing or damaged; then all are made anew."""
log = logging.getLogger("segue.stores.git")
_TRAILER = re.compile(r"\nSegue-Seq: (\d+)\nSegue-Blobs: (\d+)\n\Z")


class Head(msgspec.Struct, frozen=True):
    commit: str | None = None
    tree: str | None = None
    seq: int = 0
    blob_offset: int = 0


def commit_session(session: GitSession, messages: list[str]) -> None:
    """Raises SegueError, OSError. Does nothing when there is nothing new."""
    paths = session.paths
    if not paths.exists():
        return
    with commit_lock(paths):
        if not paths.exists():
            return
        repository.prepare(paths.git)
        repository.remove_stale_locks(paths.git)
        with no_collector(paths.git):
            _commit_whole(session, messages)


def _commit_whole(session: GitSession, messages: list[str]) -> None:
    git = session.paths.git
    for pause in PAUSES:
        try:
            _commit(session, messages)
            pack_when_many(git)
            return
        except (DamagedObject, pygit2.GitError, FileNotFoundError):
            time.sleep(pause)  # it may be somebody's `git repack` or `prune` that moves objects about
    repository.start_again(git)
    _commit(session, messages)


def _commit(session: GitSession, messages: list[str]) -> None:
    paths = session.paths
    objects = Objects(paths.git / "objects", session.recent_objects)
    head = read_head(objects, paths)
    known = _known_blobs(paths, objects, head)
    until = session.position()
    if head.seq > until.seq:
        raise DamagedObject("the history is ahead of the journal")
    additions: dict[str, Any] = {}
    for first, chunk in _chunks(session, head.seq):
        add_path(additions, f"history/{fan_out(first)}/{first:012d}.jsonl", objects.write_blob(chunk))
    blob_offset = _add_blobs(paths, head, objects, known, additions)
    if additions:
        additions["meta.json"] = paths.meta.read_bytes()
        tree = objects.grow(head.tree, additions)
        text = _message(messages, until.seq, blob_offset)
        commit = objects.write(ObjectType.COMMIT, format_commit(tree, head.commit, text, int(time.time())))
        repository.write_branch(paths.git, commit)
        if objects.missing():  # a `git gc --prune=now` took what no branch named yet
            repository.write_branch(paths.git, head.commit)
            raise DamagedObject("objects that were just written")
        session.recent_objects = objects.written


def fan_out(number: int) -> str:
    """Three directories from the number's thousands: 1234567 is in 00/12/34."""
    thousands = number // 1000
    return f"{thousands // 10_000 % 100:02d}/{thousands // 100 % 100:02d}/{thousands % 100:02d}"


def read_head(objects: Objects, paths: SessionPaths) -> Head:
    """The last commit; an empty one when there is none. Raises DamagedObject, OSError."""
    commit = repository.read_branch(paths.git)
    if commit is None:
        return Head()
    text = objects.read(commit, ObjectType.COMMIT).decode("utf-8", "replace")
    trailer, tree = _TRAILER.search(text), re.match(r"tree ([0-9a-f]{40})\n", text)
    if trailer is None or tree is None:
        raise DamagedObject(f"{commit} is not one of our commits")
    return Head(commit, tree[1], int(trailer[1]), int(trailer[2]))


def _chunks(session: GitSession, after_seq: int) -> Iterator[tuple[int, bytes]]:
    """The rows after a seq as they are in the segments, framing included."""
    for segment in segments_after(session.paths, session.position(), after_seq):
        seq = max(after_seq, segment.first - 1)
        lines = lines_after(segment, seq)
        for start in range(0, len(lines), CHUNK_ROWS):
            yield seq + start + 1, b"\n".join(lines[start : start + CHUNK_ROWS]) + b"\n"


def _known_blobs(paths: SessionPaths, objects: Objects, head: Head) -> set[tuple[str, str]] | None:
    """The blobs that are committed, when their log cannot be trusted to name those that are not; else None."""
    if restarts.happened(paths.git):
        restarts.check(paths.git, objects, head.commit)
        blobs.mend_log(paths, head.blob_offset)
        return set(restarts.blobs_in(objects, head.tree))
    return set() if head.commit is None else None


def _add_blobs(
    paths: SessionPaths,
    head: Head,
    objects: Objects,
    known: set[tuple[str, str]] | None,
    additions: dict[str, Any],
) -> int:
    found, offset = blobs.logged(paths, head.blob_offset)
    if known is not None or offset < head.blob_offset:  # the folders know best
        known = known or set()
        found = [blob for blob in dict.fromkeys([*found, *blobs.everything(paths)]) if blob not in known]
    for number, (folder, digest) in enumerate(found, head.blob_offset // 71):
        written = _written(paths, objects, folder, digest)
        if written is not None:
            add_path(additions, f"{folder}/{fan_out(number * 20)}/{digest}", written)
    return offset


def _written(paths: SessionPaths, objects: Objects, folder: str, digest: str) -> Written | None:
    """None for a blob that was noted, then lost together with whoever wanted it, or that is damaged.

    It may also be on its way.
    """
    for pause in (ON_ITS_WAY, 0.0):
        with contextlib.suppress(BlobNotFound):
            return _write(paths, objects, folder, digest)
        time.sleep(pause)
    return None


def _write(paths: SessionPaths, objects: Objects, folder: str, digest: str) -> Written | None:
    try:
        if blobs.size(paths, folder, digest) < LARGE:
            return objects.write_blob(blobs.get(paths, folder, digest))
        blobs.check(paths, folder, digest)
    except BlobNotFound:
        raise
    except StorageError as error:
        log.warning("%s; it is not committed", error)
        return None
    return objects.write_file(blobs.blob_path(paths, folder, digest))


def _message(messages: list[str], seq: int, blob_offset: int) -> str:
    title, *others = reversed(messages)
    body = "".join(f"\n{other}" for other in others)
    return f"{title}\n{body}\nSegue-Seq: {seq}\nSegue-Blobs: {blob_offset}\n"
