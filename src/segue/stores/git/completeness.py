"""Whether the loose objects are all there. They are not synced one by one, so a power loss may have taken some, also
older ones than the last commit's. It is looked at when they are packed, about every 300 commits: what is in a pack was
complete, and is durable.
"""

from __future__ import annotations

from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from segue.stores.git.objects import DIRECTORY, DamagedObject, Objects, parse_tree
from segue.stores.git.repository import read_branch


def check_complete(git: Path) -> None:
    """Look at everything that the branch reaches and that is not in a pack.

    Raises DamagedObject when an object is damaged or missing, OSError.
    """
    database, objects = pygit2.Odb(str(git / "objects")), Objects(git / "objects", {})
    head = read_branch(git)
    waiting, seen = [head] if head is not None else [], set[str]()
    while waiting:
        oid = waiting.pop()
        if oid in seen:
            continue
        seen.add(oid)
        if not _is_loose(git, oid, database):
            continue
        kind, data = objects.read_any(oid)
        if kind == ObjectType.COMMIT:
            lines = data.decode("utf-8", "replace").partition("\n\n")[0].splitlines()
            waiting += [line[-40:] for line in lines if line.startswith(("tree ", "parent "))]
            continue
        for mode, child in parse_tree(data).values():
            if mode == DIRECTORY:
                waiting.append(child.hex())
            elif (file := child.hex()) not in seen:
                seen.add(file)
                _is_loose(git, file, database)


def _is_loose(git: Path, oid: str, database: pygit2.Odb) -> bool:
    """False when it is in a pack. Raises DamagedObject when it is nowhere."""
    path = git / "objects" / oid[:2] / oid[2:]
    try:
        if path.stat().st_size > 0:
            return True
    except FileNotFoundError:
        if database.exists(pygit2.Oid(hex=oid)):
            return False
    raise DamagedObject(oid)
