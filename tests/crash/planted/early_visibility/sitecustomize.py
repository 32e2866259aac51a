"""The planted bug: readers may see rows while they are still being synced."""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path
from typing import Any

from segue.stores.git import acknowledged, tail

_write = tail.Tail.write
_now = threading.local()


class Os:
    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def fdatasync(descriptor: int) -> None:
        writing, last_seq = _now.append
        segment = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        data = segment.read_bytes()
        position = acknowledged.Position(int(segment.stem), len(data), last_seq, zlib.crc32(data))
        acknowledged.publish(writing._acknowledged, position)
        os.fdatasync(descriptor)


def write(self: tail.Tail, data: bytes, last_seq: int) -> None:
    _now.append = self, last_seq
    _write(self, data, last_seq)


tail.os = Os()  # type: ignore[assignment]
tail.Tail.write = write  # type: ignore[method-assign]
