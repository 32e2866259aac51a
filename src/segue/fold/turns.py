"""The turns of a session and how each ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Payload, text_or

SETTLED = frozenset({"completed", "failed", "cancelled"})


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    cancelling: bool = False
    """Whether it was asked to be cancelled while it ran: then it neither waits nor goes on."""
    waits: list[str] = []
    elsewhere: dict[str, str] = {}
    """Wait id -> session, of the waits that another session has."""
    started_seq: int = 0
    ended_seq: int = 0
    started_at: str = ""
    ended_at: str = ""


class TurnChanges(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    turns: list[Turn]
    """Those that began or changed, in the order they first did."""
    current: str = ""


class Turns:
    """Incremental: `apply` rows in order. `all` holds the turns in the order they began."""

    CHANGES = TurnChanges

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._current = ""
        self._elsewhere: Callable[[str], Turn | None] = lambda turn_id: None
        self._left_out = 0
        self._unsaved: dict[str, None] = {}

    def apply(self, envelope: Envelope) -> None:
        handler = _HANDLERS.get(envelope.type)
        if handler is not None and type(envelope.payload) is dict:
            handler(self, envelope, envelope.payload)

    @property
    def all(self) -> list[Turn]:
        return list(self._turns.values())

    @property
    def last(self) -> Turn | None:
        """The turn that was active last."""
        return self._turns.get(self._current)

    def __len__(self) -> int:
        return len(self._turns) + self._left_out

    def leave_out(self) -> list[Turn]:
        """Hand over all turns but the last, for whoever finds them again in `resumed`: a long session's few bytes."""
        handed = [turn for turn in self._turns.values() if turn.turn_id != self._current]
        for turn in handed:
            del self._turns[turn.turn_id]
            self._unsaved.pop(turn.turn_id, None)
        self._left_out += len(handed)
        return handed

    @classmethod
    def resumed(cls, last: Turn | None, left_out: int, elsewhere: Callable[[str], Turn | None]) -> Turns:
        """Go on after `leave_out`: the last turn, how many others there were, and how to find one of them."""
        turns = cls()
        turns._elsewhere, turns._left_out = elsewhere, left_out
        if last is not None:
            turns._current = last.turn_id
            turns._turns[last.turn_id] = last
        return turns

    def get(self, turn_id: str) -> Turn | None:
        return self._turns.get(turn_id)

    def changes(self, *, whole: bool = False) -> TurnChanges:
        """What changed since this was last called, or the turns were restored; `whole`: since the beginning."""
        changed = self._turns if whole else self._unsaved
        self._unsaved = {}
        return TurnChanges(turns=[self._turns[turn_id] for turn_id in changed], current=self._current)

    @classmethod
    def restored(cls, changes: Sequence[TurnChanges]) -> Turns:
        """The turns that gave these changes, all of them from their beginning on, at least one."""
        turns = cls()
        for change in changes:
            turns._turns.update((turn.turn_id, turn) for turn in change.turns)
        turns._current = changes[-1].current
        return turns

    def _started(self, envelope: Envelope, payload: Payload) -> None:
        turn_id = text_or(payload.get("turn_id")) or text_or(payload.get("invocation_id")) or envelope.id
        reason, attempt = payload.get("reason"), payload.get("attempt", 1)
        first = Turn(
            turn_id=turn_id,
            reason=reason if isinstance(reason, dict) else {},
            source=text_or(payload.get("source")),
            agent_id=text_or(payload.get("agent_id")),
            started_seq=envelope.seq,
            started_at=envelope.created_at,
        )
        self._current = turn_id
        self._put(
            self.find(turn_id) or first,
            status="running",
            attempt=attempt if type(attempt) is int else 1,
            failed=False,
            cancelling=False,
            waits=[],
            elsewhere={},
            ended_seq=0,
            ended_at="",
        )

    def _error(self, envelope: Envelope, payload: Payload) -> None:
        if self.last is not None:
            self._put(self.last, failed=True)

    def _settled(self, envelope: Envelope, payload: Payload) -> None:
        turn = self._meant(payload)
        if turn is not None and turn.status == "running":
            self._end(turn, envelope, "failed" if turn.failed else "completed")

    def _died(self, envelope: Envelope, payload: Payload) -> None:
        """Only what ran can die: a suspended turn goes on waiting."""
        turn = self._meant(payload)
        if turn is not None and turn.status == "running":
            stopped = "cancelled" if turn.cancelling else "interrupted"
            self._end(turn, envelope, stopped if payload.get("code") == "interrupted" else "failed")

    def _suspended(self, envelope: Envelope, payload: Payload) -> None:
        turn, waits = self._meant(payload), payload.get("waits")
        if turn is not None and turn.status == "running" and turn.cancelling:
            self._end(turn, envelope, "cancelled")
        elif turn is not None and turn.status == "running":
            named = [wait for wait in waits if type(wait) is str] if type(waits) is list else []
            self._put(
                self._end(turn, envelope, "suspended"),
                waits=named,
                elsewhere=_texts(payload.get("elsewhere")),
            )

    def _cancelled(self, envelope: Envelope, payload: Payload) -> None:
        """Also one that waits, or whose process died."""
        turn = self._meant(payload)
        if turn is not None and turn.status not in SETTLED:
            self._put(self._end(turn, envelope, "cancelled"), waits=[], elsewhere={})

    def _cancel_requested(self, envelope: Envelope, payload: Payload) -> None:
        """Whoever runs the turn ends it; of one that nobody runs this is the end."""
        turn_id = text_or(payload.get("turn_id"))
        turn = self.find(turn_id) if turn_id else self.last
        if turn is None or turn.status in SETTLED:
            return
        if turn.status == "running":
            self._put(turn, cancelling=True)
        else:
            self._put(self._end(turn, envelope, "cancelled"), waits=[], elsewhere={})

    def _approval_required(self, envelope: Envelope, payload: Payload) -> None:
        """In journals of the runner contract this row alone ends an invocation."""
        turn, wait = self.last, text_or(payload.get("tool_call_id"))
        if turn is not None and turn.status == "running" and wait:
            self._put(turn, waits=[*turn.waits, wait])

    def _meant(self, payload: Payload) -> Turn | None:
        """The turn that the row names, or the last one when it names none that is known."""
        return self.find(text_or(payload.get("turn_id"))) or self.last

    def find(self, turn_id: str) -> Turn | None:
        """One that was left out is taken back: it may be about to change."""
        turn = self._turns.get(turn_id)
        if turn is None and self._left_out and (turn := self._elsewhere(turn_id)) is not None:
            self._turns[turn_id] = turn
            self._left_out -= 1
        return turn

    def _end(self, turn: Turn, envelope: Envelope, status: str) -> Turn:
        return self._put(turn, status=status, ended_seq=envelope.seq, ended_at=envelope.created_at)

    def _put(self, turn: Turn, **fields: Any) -> Turn:
        changed = self._turns[turn.turn_id] = msgspec.structs.replace(turn, **fields)
        self._unsaved[turn.turn_id] = None
        return changed


def _texts(value: Any) -> dict[str, str]:
    if type(value) is not dict:
        return {}
    return {key: text for key, text in value.items() if type(text) is str}


_HANDLERS = {
    "INVOCATION_STARTED": Turns._started,
    "ERROR": Turns._error,
    "NO_MORE_ACTIONS": Turns._settled,
    "SESSION_ERROR": Turns._died,
    "TURN_SUSPENDED": Turns._suspended,
    "TURN_CANCELLED": Turns._cancelled,
    "CANCEL_REQUESTED": Turns._cancel_requested,
    "TOOL_APPROVAL_REQUIRED": Turns._approval_required,
}
