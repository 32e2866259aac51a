"""What a dead writer left behind is closed here, by whoever gets the lease next."""

from __future__ import annotations

import contextlib

from segue.errors import SegueError
from segue.events.facts import CallEnded, Event, SessionError
from segue.fold.graph import CallGraph
from segue.fold.turns import Turns
from segue.journal import Journal
from segue.stores.protocol import Lease


def needs_recovery(journal: Journal) -> bool:
    """Whether the last turn is neither settled nor suspended. True also while its living writer works on it."""
    last = journal.view(Turns).last
    return last is not None and last.status == "running"


def recover(journal: Journal, lease: Lease) -> bool:
    """Close the turn of a writer that died: its running calls and then the turn itself become `interrupted`.

    Holding the lease proves that no living writer is touched. Returns whether there was anything to close.
    """
    last = journal.view(Turns).last
    if last is None or last.status != "running":
        return False
    with journal.viewing(CallGraph) as graph:
        running = graph.running()
    rows: list[Event] = [CallEnded(node_id=node.id, status="interrupted") for node in running]
    message = "the process that ran this turn ended before the turn did"
    journal.append(
        *rows, SessionError(message=message, code="interrupted", turn_id=last.turn_id), lease=lease
    )
    return True


def close_dead_turn(journal: Journal, source: str) -> None:
    """At the first open in this process: close what a dead writer left, unless a living one is at work."""
    if journal.opened:
        return
    journal.opened = True
    if not needs_recovery(journal) or journal.store.holder(journal.session_id) is not None:
        return
    with contextlib.suppress(
        SegueError
    ):  # another process was faster: it recovers, or the first row tells why not
        lease = journal.acquire(holder=f"{source} (recovering)")
        try:
            recover(journal, lease)
        finally:
            journal.release(lease)
