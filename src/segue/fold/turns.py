"""The turns of a session and how each ended."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.events.envelope import Envelope


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    turn_id: str
    status: str = "running"
    """running, suspended, interrupted (both can be resumed), completed, failed or cancelled.

    A turn whose process died says running until somebody opens the session.
    """
    reason: dict[str, Any] = {}
    """Of its first invocation."""
    source: str = ""
    agent_id: str = ""
    attempt: int = 1
    failed: bool = False
    waits: list[str] = []
    started_seq: int = 0
    ended_seq: int = 0
    started_at: str = ""
    ended_at: str = ""


class Turns:
    """Incremental: `apply` rows in order. `all` holds the turns in the order they began."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._current = ""

    def apply(self, envelope: Envelope) -> None:
        handler = _HANDLERS.get(envelope.type)
        if handler is not None:
            handler(self, envelope, envelope.payload)

    @property
    def all(self) -> list[Turn]:
        return list(self._turns.values())

    @property
    def last(self) -> Turn | None:
        """The turn that was active last."""
        return self._turns.get(self._current)

    def __len__(self) -> int:
        return len(self._turns)

    def get(self, turn_id: str) -> Turn | None:
        return self._turns.get(turn_id)

    def _started(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        turn_id = _text(payload, "turn_id") or _text(payload, "invocation_id") or envelope.id
        reason, attempt = payload.get("reason"), payload.get("attempt", 1)
        first = Turn(
            turn_id=turn_id,
            reason=reason if isinstance(reason, dict) else {},
            source=_text(payload, "source"),
            agent_id=_text(payload, "agent_id"),
            started_seq=envelope.seq,
            started_at=envelope.created_at,
        )
        self._current = turn_id
        self._turns[turn_id] = msgspec.structs.replace(
            self._turns.get(turn_id, first),
            status="running",
            attempt=attempt if type(attempt) is int else 1,
            failed=False,
            waits=[],
        )

    def _error(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self._change(failed=True)

    def _settled(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        turn = self.last
        self._end(envelope, "failed" if turn is not None and turn.failed else "completed")

    def _died(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self._end(envelope, "interrupted" if payload.get("code") == "interrupted" else "failed")

    def _suspended(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        waits = payload.get("waits")
        self._end(envelope, "suspended")
        self._change(
            waits=[wait for wait in waits if isinstance(wait, str)] if isinstance(waits, list) else []
        )

    def _cancelled(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self._end(envelope, "cancelled")

    def _approval_required(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        """In journals of the runner contract this row alone ends an invocation."""
        turn = self.last
        if turn is not None and turn.status == "running":
            self._change(waits=[*turn.waits, _text(payload, "tool_call_id")])

    def _end(self, envelope: Envelope, status: str) -> None:
        turn = self.last
        if turn is not None and turn.status == "running":
            self._change(status=status, ended_seq=envelope.seq, ended_at=envelope.created_at)

    def _change(self, **fields: Any) -> None:
        turn = self.last
        if turn is not None:
            self._turns[turn.turn_id] = msgspec.structs.replace(turn, **fields)


_HANDLERS = {
    "INVOCATION_STARTED": Turns._started,
    "ERROR": Turns._error,
    "NO_MORE_ACTIONS": Turns._settled,
    "SESSION_ERROR": Turns._died,
    "TURN_SUSPENDED": Turns._suspended,
    "TURN_CANCELLED": Turns._cancelled,
    "TOOL_APPROVAL_REQUIRED": Turns._approval_required,
}


def _text(payload: dict[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""
