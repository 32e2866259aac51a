"""After a restart of the machine: what of the derived history is whole.

Objects, branch and the log of blobs are not synced when they are written. They are derived, and a sync for each would
cost more than the turn. So when the machine went down, they may be missing or damaged. The first commit after each
start of the machine looks at all that was written since the start before: in proportion to that, and only once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import msgspec
from pygit2.enums import ObjectType

from segue.stores.git.layout import write_new
from segue.stores.git.objects import DIRECTORY, DamagedObject, Objects, is_whole, parse_tree

MARK = "segue-checked"
_HEADERS = re.compile(rb"tree ([0-9a-f]{40})\n(?:parent ([0-9a-f]{40})\n)?")
_PROCESS = secrets.token_hex(16)


class Checked(msgspec.Struct, frozen=True):
    """What `.git/segue-checked` says."""

    boot: str = ""
    """The start of the machine since which everything is there that was written: see `boot_id`."""
    commit: str = ""
    """This commit and all before it were found whole after that start."""


def boot_id() -> str:
    """Which start of the machine this is; where the system does not say, another one for each process."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return _PROCESS


def happened(git: Path) -> bool:
    """Whether the machine was started since this history was looked at. Raises OSError."""
    return _read_mark(git).boot != boot_id()


def check(git: Path, objects: Objects, commit: str | None) -> None:
    """Look at what was written since the start before, up to the commit; damaged objects are taken
    away. The caller holds the commit lock. Raises DamagedObject when a commit needs one, OSError."""
    for path in list(_loose(git)):
        if not is_whole(path):
            path.unlink(missing_ok=True)
    for index in (git / "objects" / "pack").glob("*.idx"):
        if not index.with_suffix(".pack").exists():  # one of the two reached the disk, or was removed from it
            index.unlink(missing_ok=True)
    known = _read_mark(git).commit
    following = commit
    while following and following != known:
        following = _check_commit(objects, following)
    write_new(git / MARK, msgspec.json.encode(Checked(boot_id(), commit or "")))


def blobs_in(objects: Objects, tree: str | None) -> Iterator[tuple[str, str]]:
    """Folder and digest of the blobs in a commit's tree. Raises DamagedObject."""
    for name, (_, oid) in parse_tree(objects.read(tree, ObjectType.TREE)).items() if tree else ():
        if name in (b"context", b"files"):
            yield from ((name.decode(), digest) for digest in _names(objects, oid.hex()))


def _names(objects: Objects, tree: str) -> Iterator[str]:
    for name, (mode, oid) in parse_tree(objects.read(tree, ObjectType.TREE)).items():
        if mode == DIRECTORY:
            yield from _names(objects, oid.hex())
        else:
            yield name.decode()


def _read_mark(git: Path) -> Checked:
    try:
        return msgspec.json.decode((git / MARK).read_bytes(), type=Checked)
    except (FileNotFoundError, msgspec.DecodeError):
        return Checked()


def _loose(git: Path) -> Iterator[Path]:
    return (path for path in (git / "objects").glob("[0-9a-f][0-9a-f]/*") if len(path.name) == 38)


def _check_commit(objects: Objects, commit: str) -> str:
    """Read all that it added; gives its parent, empty when it is the first."""
    tree, parent = _headers(objects, commit)
    _check_tree(objects, tree, _headers(objects, parent)[0] if parent else "")
    return parent


def _headers(objects: Objects, commit: str) -> tuple[str, str]:
    found = _HEADERS.match(objects.read(commit, ObjectType.COMMIT))
    if found is None:
        raise DamagedObject(f"{commit} is not one of our commits")
    return found[1].decode(), (found[2] or b"").decode()


def _check_tree(objects: Objects, tree: str, before: str) -> None:
    known = parse_tree(objects.read(before, ObjectType.TREE)) if before else {}
    for name, (mode, oid) in parse_tree(objects.read(tree, ObjectType.TREE)).items():
        if known.get(name) == (mode, oid):
            continue
        if mode == DIRECTORY:
            old = known.get(name)
            _check_tree(objects, oid.hex(), old[1].hex() if old and old[0] == DIRECTORY else "")
        elif not objects.is_loose(oid.hex()):  # those were looked at, and may be large
            objects.read(oid.hex(), ObjectType.BLOB)
