"""The planted bug: a change mark is made, but nobody waits until it is durable."""

from __future__ import annotations

from pathlib import Path

from segue.stores.git import marks


def make(mark: Path) -> None:
    if not mark.exists():
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.write_bytes(b"\n")


marks.make = make
