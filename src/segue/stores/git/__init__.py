"""The default store: one git repository a session, whose truth is an append-only journal of plain lines."""

from segue.stores.git.store import GitStore

__all__ = ["GitStore"]
