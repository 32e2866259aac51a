"""Opens a git store that begins a new segment every few appends: for several processes."""

from __future__ import annotations

from segue.stores.git import GitStore


def open_store(location: str) -> GitStore:
    return GitStore(location, segment_bytes=2000)
