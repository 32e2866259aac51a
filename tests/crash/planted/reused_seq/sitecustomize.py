"""The planted bug: after an append that nobody acknowledged was healed, its last seq is given out again."""

from __future__ import annotations

import msgspec

from segue.stores.git.acknowledged import Position
from segue.stores.git.healing import Healing

_run = Healing.run


def run(self: Healing) -> Position:
    before = self.position
    after = _run(self)
    return after if after.seq == before.seq else msgspec.structs.replace(after, seq=after.seq - 1)


Healing.run = run  # type: ignore[method-assign]
