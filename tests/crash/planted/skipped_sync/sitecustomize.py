"""The planted bug: rows count as durable without having been synced."""

from __future__ import annotations

import os
from typing import Any

from segue.stores.git import tail


class Os:
    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def fdatasync(descriptor: int) -> None:
        pass


tail.os = Os()  # type: ignore[assignment]
