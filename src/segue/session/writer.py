"""SessionNodeWriter: what code inside a turn writes its calls with. Nodes go in, events come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from segue.errors import UsageError
from segue.events.facts import CallEnded, CallStarted
from segue.events.json_values import to_json
from segue.fold.graph import CallGraph
from segue.ids import new_id

if TYPE_CHECKING:
    from segue.session.db import SessionDB
    from segue.session.turn import Turn

Kind = Literal["function", "model", "tool", "question", "step"]
ENDED = {"status", "result", "error", "usage"}


class SessionNodeWriter:
    """Bound to one session and one turn. Once that turn has ended every write raises `TurnEnded`."""

    def __init__(self, turn: Turn, db: SessionDB, outer: SessionNodeWriter | None = None) -> None:
        self.turn, self.db = turn, db
        self.outer = outer

    @property
    def session_id(self) -> str:
        return self.turn.session_id

    @property
    def turn_id(self) -> str:
        return self.turn.turn_id

    def append(self, node: Mapping[str, Any]) -> str:
        """Record a call that starts. `node` needs `kind` and `name`; `arguments`, `called_by`, `node_id`, `doc` and
        `expose` are optional. Returns the node id once the row is durable.

        Raises `InvalidEvent` for a wrong field, `TurnEnded`, `SessionBusy` or `StorageError`; then nothing was written.
        """
        fields = dict(node)
        node_id = fields.setdefault("node_id", new_id("node"))
        fields["arguments"] = to_json(fields.get("arguments"))
        fields.setdefault("predecessor", self.turn.follow(fields.get("called_by", ""), node_id))
        self.turn.append(_struct(CallStarted, fields | {"turn_id": self.turn_id}))
        return str(node_id)

    def update(self, node_id: str, **fields: Any) -> None:
        """Record how a call ended: `status` (completed, failed, cancelled, interrupted, suspended) and, of it,
        `result`, `error` or `usage`. The first terminal status wins; a later one changes nothing."""
        if "status" not in fields or not fields.keys() <= ENDED:
            raise UsageError(f"update takes status and, optionally, {', '.join(sorted(ENDED - {'status'}))}")
        if "result" in fields:
            fields["result"] = to_json(fields["result"])
        self.turn.append(_struct(CallEnded, {"node_id": node_id, **fields}))

    def load(self) -> CallGraph:
        """The session's call graph as it is visible now."""
        return self.turn.journal.view(CallGraph)


def _struct(cls: type[CallStarted] | type[CallEnded], fields: dict[str, Any]) -> CallStarted | CallEnded:
    unknown = fields.keys() - set(cls.__struct_fields__)
    if unknown:
        raise UsageError(f"{cls.TYPE} has no field {', '.join(sorted(unknown))}")
    missing = [
        field.name for field in msgspec.structs.fields(cls) if field.required and field.name not in fields
    ]
    if missing:
        raise UsageError(f"a {cls.TYPE} node needs {', '.join(missing)}")
    return cls(**fields)
