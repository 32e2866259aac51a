"""Loose objects into a pack, now and then: a few kilobytes a commit become a few hundred bytes. Packs are joined when
they are of like size, so there are few of them, however long the session, and an object is copied few times.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from pathlib import Path

import pygit2

from segue.stores.git.completeness import check_complete
from segue.stores.git.layout import sync_directory
from segue.stores.git.objects import is_large, is_whole
from segue.stores.git.packs import Pack, join_packs, read_pack
from segue.stores.git.repository import STALE_SECONDS, remove_unfinished

SAMPLE = "17"
"""Object ids are random: one of the 256 directories tells how full all are. Git's own automatic gc looks here too."""
MOST_IN_SAMPLE = 4
"""About 1,000 loose objects, 150 commits: a tenth of a second's work."""
LIKE = 2
"""A pack is joined with all smaller ones when it is at most that many times as long as they are together."""
MOST_BYTES = 1 << 30
"""Of a joined pack."""
_UNFINISHED = ("pack/tmp_pack_*", "pack/tmp_idx_*", "pack/pack_git2_*", "tmp_objdir-*")
_PARTS = (".idx", ".rev", ".bitmap", ".pack")

log = logging.getLogger("segue.stores.git")


def pack_when_many(git: Path) -> None:
    """The caller holds the commit lock. Raises pygit2.GitError, DamagedObject when an object is damaged."""
    try:
        many = len(os.listdir(git / "objects" / SAMPLE)) >= MOST_IN_SAMPLE
    except FileNotFoundError:
        return
    if many:
        try:
            pack(git)
        except OSError as error:
            log.warning("the objects of %s could not be packed: %s", git, error)


def pack(git: Path) -> None:
    """No loose object and few packs remain; what is removed is durable elsewhere.

    Raises OSError, pygit2.GitError, DamagedObject.
    """
    _remove_unfinished(git / "objects")
    remove_unfinished(git)
    check_complete(git)
    pack_loose(git / "objects")
    join_like(git / "objects" / "pack")


def pack_loose(objects: Path) -> None:
    """All loose objects that are in no pack into a new one; they go once it is durable."""
    found = (path for path in objects.glob("[0-9a-f][0-9a-f]/*") if len(path.name) == 38)
    loose = [path for path in found if not is_large(path)]
    packs = _packs(objects / "pack")
    oids = (path.parent.name + path.name for path in loose if is_whole(path))  # no commit has the others
    new = [oid for oid in oids if not any(bytes.fromhex(oid) in found for found in packs)]
    if new:
        _write_pack(objects, new)
    for path in loose:
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in loose}:
        with contextlib.suppress(OSError):  # an object came in meanwhile
            directory.rmdir()


def _write_pack(objects: Path, oids: list[str]) -> None:
    """A pack of these objects. It is durable before it is in its place: libgit2 can search a torn one for ever."""
    repository = pygit2.Repository()  # no path, so no configuration of its own
    repository.set_odb(pygit2.Odb(str(objects)))
    building = objects / f"tmp_objdir-{os.getpid()}"  # a name that git would clean up
    building.mkdir(mode=0o700)
    try:
        repository.pack(str(building), lambda builder: _add(builder, oids), n_threads=1)
        # the index last: it is what git looks for
        files = sorted(building.iterdir(), key=lambda path: path.suffix == ".idx")
        for path in files:
            _sync(path)
        for path in files:
            os.replace(path, objects / "pack" / path.name)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    sync_directory(objects / "pack")


def join_like(folder: Path) -> None:
    """Join packs until each is longer than all smaller ones; remove those whose objects are all elsewhere."""
    like = _like(_packs(folder))
    seen: set[bytes] = set()
    single: list[Pack] = []
    for found in reversed(like):
        ids = found.ids()
        if seen.issuperset(ids):  # a crash kept it from being removed
            _remove([found])
        elif seen.isdisjoint(ids):
            single.append(found)
        seen.update(ids)
    if len(single) > 1:
        join_packs(folder, single)
        _remove(single)


def _like(packs: list[Pack]) -> list[Pack]:
    """The smallest packs up to the biggest one that is not longer than they warrant, in the order of their size.

    Without them, each pack is more than twice as long as all smaller ones together.
    """
    ascending = sorted(packs, key=lambda pack: (pack.size, pack.path))
    count = total = 0
    for number, found in enumerate(ascending):
        if found.size <= LIKE * total and total + found.size <= MOST_BYTES:
            count = number + 1
        total += found.size
    return ascending[:count]


def _packs(folder: Path) -> list[Pack]:
    """The packs that may be joined: not those that somebody marked to be kept."""
    paths = (path.with_suffix(".pack") for path in sorted(folder.glob("pack-*.idx")))
    found = (read_pack(path) for path in paths if path.exists() and not _is_marked(path))
    return [pack for pack in found if pack is not None]


def _is_marked(path: Path) -> bool:
    return any(path.with_suffix(mark).exists() for mark in (".keep", ".promisor", ".mtimes"))


def _remove(packs: list[Pack]) -> None:
    for path in packs[0].path.parent.glob("multi-pack-index*"):  # it would name what is not there any more
        path.unlink(missing_ok=True)
    for found in packs:
        for part in _PARTS:
            found.path.with_suffix(part).unlink(missing_ok=True)


def _remove_unfinished(objects: Path) -> None:
    unfinished = [found for pattern in _UNFINISHED for found in objects.glob(pattern)]
    packs = objects.glob("pack/pack-*.pack")
    for path in [*unfinished, *(path for path in packs if not path.with_suffix(".idx").exists())]:
        if time.time() - path.stat().st_mtime <= STALE_SECONDS:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _add(builder: pygit2.PackBuilder, oids: list[str]) -> None:
    for oid in oids:
        builder.add(pygit2.Oid(hex=oid))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
