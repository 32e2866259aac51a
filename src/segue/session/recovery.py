"""What a dead writer left behind is closed here, by whoever gets the lease next; and what an old turn still waits for,
when somebody starts a new one."""

from __future__ import annotations

import contextlib

from segue.errors import SegueError, StaleWriter
from segue.events.facts import (
    CallEnded,
    CallResolved,
    Event,
    SessionError,
    ToolApprovalDenied,
    ToolResult,
    TurnCancelled,
)
from segue.fold.graph import CallGraph
from segue.fold.turns import SETTLED, Turn, Turns
from segue.fold.waits import OpenCall, Waits
from segue.journal import Journal
from segue.stores.protocol import Lease

NEVER_STARTED = "This call was not run: the process that was to run it ended before."
LEFT_BEHIND = "This call was not run: a new message came before it was decided on."
SKIPPED = "It was interrupted; nobody knows whether it took effect. It was not done again."
"""What the model is told of a call of unknown outcome that is left at that."""
STOPPED = "It was stopped before its end; what it had done by then stays done."
SUPERSEDED = "superseded"
"""The reason of decisions that nobody made: a new turn began while the call waited."""


def needs_recovery(journal: Journal) -> bool:
    """Whether the last turn is neither settled nor suspended. True also while its living writer works on it."""
    last = journal.view(Turns).last
    return last is not None and last.status == "running"


def recover(journal: Journal, lease: Lease) -> bool:
    """Close the turn of a writer that died: its running calls and then the turn itself become `interrupted`. Tool calls
    of the conversation that were never started are answered so.

    Holding the lease proves that no living writer is touched. Returns whether there was anything to close.
    """
    last = journal.view(Turns).last
    if last is None or last.status != "running":
        return False
    with journal.viewing(CallGraph) as graph:
        running = graph.running()
    with journal.viewing(Waits) as waits:
        calls = waits.open_calls(last.turn_id)
    never = [call for call in calls if not (call.called_by or call.started or call.asked)]
    message = "the process that ran this turn ended before the turn did"
    journal.append(
        *(_not_run(call, NEVER_STARTED) for call in never),
        *(CallEnded(node_id=node.id, status="interrupted") for node in running),
        SessionError(message=message, code="interrupted", turn_id=last.turn_id),
        lease=lease,
    )
    return True


def supersede(journal: Journal, lease: Lease, turn_id: str) -> None:
    """A new turn begins: what an earlier one waits for is not to be decided any more. Its open approvals are denied,
    calls of unknown outcome are left at that, both and all that never started are answered so; and it is cancelled,
    which closes its questions.

    Written only onto the very state that was looked at: a decision that is faster counts, and its call is answered.
    """
    while True:
        last = journal.last_seq
        rows = [
            row
            for turn in _waiting(journal, turn_id)
            for row in cancelled(journal, turn.turn_id, SUPERSEDED, LEFT_BEHIND)
        ]
        if not rows:
            return
        with contextlib.suppress(StaleWriter):
            journal.append(*rows, lease=lease, expected_seq=last)
            return


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


def _waiting(journal: Journal, turn_id: str) -> list[Turn]:
    """Other turns that are suspended, or that something is still open of."""
    turns, last = journal.view(Turns), journal.view(Turns).last
    with journal.viewing(Waits) as waits:
        named = [wait.turn_id for wait in waits.open]
    suspended = [last.turn_id] if last is not None and last.status == "suspended" else []
    found = (turns.get(name) for name in dict.fromkeys([*named, *suspended]) if name != turn_id)
    return [turn for turn in found if turn is not None and turn.status not in SETTLED]


def cancelled(journal: Journal, turn_id: str, reason: str, not_run: str) -> list[Event]:
    """The rows that cancel a turn: `closed`, and its end."""
    return [*closed(journal, turn_id, reason, not_run), TurnCancelled(turn_id=turn_id, reason=reason)]


def closed(journal: Journal, turn_id: str, reason: str, not_run: str) -> list[Event]:
    """The rows that come before the end of a turn which nobody goes on with: what it waits for is decided, its open
    calls are answered; `not_run` is what the model is told of those that never started."""
    with journal.viewing(Waits) as waits:
        kinds = {wait.id: wait.kind for wait in waits.open if wait.turn_id == turn_id}
        calls = waits.open_calls(turn_id)
    return [
        *(_closed(wait_id, kind, reason) for wait_id, kind in kinds.items() if kind != "question"),
        *(_not_run(call, not_run) for call in calls if not call.started),
        *(_not_run(call, SKIPPED if call.id in kinds else STOPPED) for call in calls if call.started),
    ]


def _closed(wait_id: str, kind: str, reason: str) -> Event:
    if kind == "approval":
        return ToolApprovalDenied(tool_call_id=wait_id, reason=reason)
    return CallResolved(call_id=wait_id, action="skip", by=reason)


def _not_run(call: OpenCall, why: str) -> ToolResult:
    return ToolResult(tool_call_id=call.id, result=why, is_error=True, called_by=call.called_by)
