"""Loose objects into a pack, now and then: a few kilobytes a commit become a few hundred bytes."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import pygit2

from segue.stores.git.layout import sync_directory

SAMPLE = "17"
"""Object ids are random: one of the 256 directories tells how full all are. Git's own automatic gc looks here too."""
MOST_IN_SAMPLE = 8
"""About 2,000 loose objects, 300 commits."""

log = logging.getLogger("segue.stores.git")


def pack_when_many(git: Path) -> None:
    """The caller holds the commit lock. Raises pygit2.GitError when an object is damaged."""
    try:
        many = len(os.listdir(git / "objects" / SAMPLE)) >= MOST_IN_SAMPLE
    except FileNotFoundError:
        return
    if many:
        try:
            pack_loose(git)
        except OSError as error:
            log.warning("the objects of %s could not be packed: %s", git, error)


def pack_loose(git: Path) -> None:
    """All loose objects into one new pack; they go once it is durable. Raises OSError, pygit2.GitError."""
    objects = git / "objects"
    loose = [path for path in objects.glob("[0-9a-f][0-9a-f]/*") if len(path.name) == 38]
    if not loose:
        return
    before = set((objects / "pack").iterdir())
    repository = pygit2.Repository()  # no path, so no configuration of its own
    repository.set_odb(pygit2.Odb(str(objects)))
    repository.pack(str(objects / "pack"), lambda builder: _add(builder, loose), n_threads=1)
    for path in set((objects / "pack").iterdir()) - before:
        _sync(path)
    sync_directory(objects / "pack")
    for path in loose:
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in loose}:
        with contextlib.suppress(OSError):  # an object came in meanwhile
            directory.rmdir()


def _add(builder: pygit2.PackBuilder, loose: list[Path]) -> None:
    for path in loose:
        builder.add(pygit2.Oid(hex=path.parent.name + path.name))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
