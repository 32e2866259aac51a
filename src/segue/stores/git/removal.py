"""Deleting a session: out of sight in one step, then its bytes."""

from __future__ import annotations

import os

from segue.stores.git import acknowledged
from segue.stores.git.layout import SessionPaths, hide_session, sweep_hidden
from segue.stores.git.locks import append_lock, commit_lock


def remove(paths: SessionPaths) -> None:
    """The caller holds the turn lease. Waits for a commit and an append on their way.

    Raises `SessionBusy`, OSError.
    """
    with commit_lock(paths), append_lock(paths):
        descriptor = os.open(paths.acknowledged, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            hide_session(paths)
            acknowledged.retract(descriptor)
        finally:
            os.close(descriptor)
    sweep_hidden(paths.root)
