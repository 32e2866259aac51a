"""What was submitted to a session, and what of it still has to be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Payload, text_or


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    turn_id: str
    client_id: str
    reason: dict[str, Any]
    """Shared with the envelope: never change it."""
    mode: str = "queue"
    agent_id: str = ""
    budget: dict[str, Any] | None = None
    seq: int = 0


class SubmissionsState(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    pending: list[Submission]
    """All of them."""
    done: dict[str, str]
    """Those that were taken since, and by which type of row."""


class Submissions:
    """Incremental: `apply` rows in order.

    A submission is pending until its turn begins, its message is in the conversation, or it is cancelled. It counts
    once, however often it was submitted. Moving the head back does not bring it back.
    """

    CHANGES = SubmissionsState

    def __init__(self) -> None:
        self._pending: dict[str, Submission] = {}
        self._done: dict[str, str] = {}
        self._unsaved: dict[str, str] = {}

    def apply(self, envelope: Envelope) -> None:
        if type(envelope.payload) is not dict:
            return
        if envelope.type == "TURN_SUBMITTED":
            self._submitted(envelope, envelope.payload)
        elif (key := TAKEN.get(envelope.type)) is not None:
            self._take(text_or(envelope.payload.get(key)), envelope.type)

    @property
    def pending(self) -> list[Submission]:
        """In the order they were submitted."""
        return list(self._pending.values())

    def knows(self, turn_id: str) -> bool:
        return turn_id in self._pending or turn_id in self._done

    def is_pending(self, turn_id: str) -> bool:
        return turn_id in self._pending

    def is_withdrawn(self, turn_id: str) -> bool:
        """Whether it was cancelled before it began."""
        return self._done.get(turn_id) in ("CANCEL_REQUESTED", "TURN_CANCELLED")

    def changes(self, *, whole: bool = False) -> SubmissionsState:
        done, self._unsaved = dict(self._done) if whole else self._unsaved, {}
        return SubmissionsState(pending=self.pending, done=done)

    @classmethod
    def restored(cls, changes: Sequence[SubmissionsState]) -> Submissions:
        submissions = cls()
        submissions._pending = {pending.turn_id: pending for pending in changes[-1].pending}
        for change in changes:
            submissions._done |= change.done
        return submissions

    def _submitted(self, envelope: Envelope, payload: Payload) -> None:
        turn_id, reason = text_or(payload.get("turn_id")), payload.get("reason")
        budget = payload.get("budget")
        if not turn_id or self.knows(turn_id):
            return
        self._pending[turn_id] = Submission(
            turn_id=turn_id,
            client_id=text_or(payload.get("client_id")),
            reason=reason if isinstance(reason, dict) else {},
            mode=text_or(payload.get("mode")) or "queue",
            agent_id=text_or(payload.get("agent_id")),
            budget=budget if isinstance(budget, dict) else None,
            seq=envelope.seq,
        )

    def _take(self, turn_id: str, kind: str) -> None:
        if self._pending.pop(turn_id, None) is not None:
            self._done[turn_id] = self._unsaved[turn_id] = kind


TAKEN = {
    "INVOCATION_STARTED": "turn_id",
    "MESSAGE_START": "message_id",
    "CANCEL_REQUESTED": "turn_id",
    "TURN_CANCELLED": "turn_id",
}
"""Row type -> the field that names a submission which is not pending any more."""
