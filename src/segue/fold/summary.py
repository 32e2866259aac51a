"""What a listing says of a session."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Malformed, Payload, text_or
from segue.fold.rows import user_content
from segue.fold.submissions import TAKEN
from segue.fold.turns import Turn, Turns

TITLE_LENGTH = 80


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a listing shows it, at one moment."""

    session_id: str
    title: str
    """What a person called it, else the first user words, at most 80 characters of them; on one line."""
    status: str
    """Of the last turn (`segue.fold.turns.Turn.status`); `queued` when that is over and others were submitted, `idle`
    before the first."""
    turns: int = 0
    events: int = 0
    agent_id: str = ""
    source: str = ""
    cwd: str = ""
    created_at: str = ""
    active_at: str = ""
    """When its conversation last moved: archiving, renaming and pinning are no activity."""
    archived: bool = False
    pinned: bool = False
    tags: list[str] = []


class SummaryState(msgspec.Struct, frozen=True):
    """What a summary has to know beside its info to go on, whatever the length of its session."""

    title: str
    """As given; empty when nobody gave one."""
    first_words: str
    last: tuple[str, str, bool, bool] | None
    """Id, status, `failed` and `cancelling` of the last turn."""
    queued: list[str] = []
    """Submitted turns that did not begin yet."""


class Summary:
    """Incremental: `apply` rows in order."""

    def __init__(self) -> None:
        self.session_id = ""
        self.agent_id = ""
        self.source = ""
        self.cwd = ""
        self.created_at = ""
        self.active_at = ""
        self.archived = False
        self.pinned = False
        self.tags: list[str] = []
        self.events = 0
        self._turns = Turns()
        self._queued: list[str] = []
        self._title = ""
        self._first_words = ""

    @classmethod
    def resumed(
        cls, info: SessionInfo, state: SummaryState, elsewhere: Callable[[str], Turn | None]
    ) -> Summary:
        """Go on after `leave_out`; `elsewhere` finds the turns that it handed over."""
        summary = cls()
        for name in ("session_id", "agent_id", "source", "cwd", "created_at", "active_at"):
            setattr(summary, name, getattr(info, name))
        summary.archived, summary.pinned, summary.tags = info.archived, info.pinned, list(info.tags)
        summary.events, summary._title, summary._first_words = info.events, state.title, state.first_words
        summary._queued = list(state.queued)
        last = None
        if state.last is not None:
            turn_id, status, failed, cancelling = state.last
            last = Turn(turn_id=turn_id, status=status, failed=failed, cancelling=cancelling)
        summary._turns = Turns.resumed(last, info.turns - (last is not None), elsewhere)
        return summary

    def leave_out(self) -> tuple[SummaryState, list[Turn]]:
        """The state to go on from, and the turns that `elsewhere` has to find then (id, status, `failed`)."""
        turns, last = self._turns.leave_out(), self._turns.last
        kept = None if last is None else (last.turn_id, last.status, last.failed, last.cancelling)
        return SummaryState(self._title, self._first_words, kept, list(self._queued)), turns

    def apply(self, envelope: Envelope) -> None:
        self._turns.apply(envelope)
        self._line_up(envelope)
        self.session_id = envelope.session_id
        self.events += 1
        handler = _HANDLERS.get(envelope.type)
        if handler is None:
            self.active_at = envelope.created_at
        elif type(envelope.payload) is dict:
            handler(self, envelope, envelope.payload)

    def info(self) -> SessionInfo:
        """As it is now. A turn whose process died says running: only the store knows whether its holder lives."""
        last = self._turns.last
        return SessionInfo(
            session_id=self.session_id,
            title=one_line(self._title) or self._first_words,
            status=self._status(last),
            turns=len(self._turns),
            events=self.events,
            agent_id=self.agent_id,
            source=self.source,
            cwd=self.cwd,
            created_at=self.created_at,
            active_at=self.active_at,
            archived=self.archived,
            pinned=self.pinned,
            tags=list(self.tags),
        )

    def _status(self, last: Turn | None) -> str:
        if self._queued and (last is None or last.status not in ("running", "suspended")):
            return "queued"
        return last.status if last is not None else "idle"

    def _line_up(self, envelope: Envelope) -> None:
        key = "turn_id" if envelope.type == "TURN_SUBMITTED" else TAKEN.get(envelope.type)
        if key is None or type(envelope.payload) is not dict:
            return
        turn_id = text_or(envelope.payload.get(key))
        if turn_id in self._queued:
            if envelope.type != "TURN_SUBMITTED":
                self._queued.remove(turn_id)
        elif envelope.type == "TURN_SUBMITTED" and turn_id and self._turns.find(turn_id) is None:
            self._queued.append(turn_id)

    def _created(self, envelope: Envelope, payload: Payload) -> None:
        self.created_at = self.active_at = envelope.created_at
        self.agent_id, self.source = text_or(payload.get("agent_id")), text_or(payload.get("source"))
        self._title, self.cwd = text_or(payload.get("title")), text_or(payload.get("cwd"))
        self._set_tags(payload)

    def _updated(self, envelope: Envelope, payload: Payload) -> None:
        self._title = text_or(payload.get("title")) or self._title
        self.archived = _flag(payload, "archived", self.archived)
        self.pinned = _flag(payload, "pinned", self.pinned)
        self._set_tags(payload)

    def _started(self, envelope: Envelope, payload: Payload) -> None:
        self.active_at = envelope.created_at
        if not self._first_words and type(payload.get("reason")) is dict:
            self._first_words = one_line(_said(payload["reason"]))[:TITLE_LENGTH].strip()

    def _set_tags(self, payload: Payload) -> None:
        tags = payload.get("tags")
        if isinstance(tags, list):
            self.tags = [tag for tag in tags if isinstance(tag, str)]


_HANDLERS = {
    "SESSION_CREATED": Summary._created,
    "SESSION_UPDATED": Summary._updated,
    "INVOCATION_STARTED": Summary._started,
}


def one_line(text: str) -> str:
    return " ".join(text[:1000].split())


def _said(reason: Payload) -> str:
    """The words of the user, of content parts the texts."""
    try:
        content = user_content(reason) or ""
    except Malformed:
        return ""
    return content if isinstance(content, str) else " ".join(text_or(part.get("text")) for part in content)


def _flag(payload: Payload, key: str, default: bool) -> bool:
    value = payload.get(key)
    return value if isinstance(value, bool) else default
