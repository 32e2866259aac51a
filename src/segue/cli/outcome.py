"""How a turn ended, as the journal has it."""

from __future__ import annotations

from typing import Any

from segue.cli.output import Outcome
from segue.events.json_values import json_or_reason
from segue.fold.graph import CallGraph
from segue.fold.usage import Counts, add_counts, counts_of
from segue.session.db import SessionDB
from segue.session.turn import status_of

__all__ = ["Outcome", "read", "usage_of"]


def read(db: SessionDB, session_id: str, turn_id: str, value: Any, error: BaseException | None) -> Outcome:
    """A turn that wrote no row has no status in the journal: what was raised, if anything, tells it.

    The result is the one that the journal has, also where the value itself cannot be recorded."""
    turn = db.turns(session_id).get(turn_id)
    return Outcome(
        session_id=session_id,
        turn_id=turn_id,
        status=turn.status if turn is not None else status_of(error) or "interrupted",
        result=json_or_reason(value),
        usage=usage_of(db.journal(session_id).view(CallGraph), turn_id),
        error=None if error is None else {"type": type(error).__name__, "message": str(error)},
    )


def usage_of(graph: CallGraph, turn_id: str) -> Counts:
    """Tokens of all model calls of a turn, by kind, and their cost where it is recorded."""
    total: Counts = {}
    for node in graph.nodes.values():
        if node.turn_id == turn_id and node.kind == "model":
            add_counts(total, counts_of(node.usage))
    return total
