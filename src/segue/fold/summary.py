"""What a listing says of a session."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.turns import Turns

TITLE_LENGTH = 80


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a listing shows it, at one moment."""

    session_id: str
    title: str
    """What a person called it, else the first user words, on one line of at most 80 characters."""
    status: str
    """Of the last turn (`segue.fold.turns.Turn.status`); `idle` before the first."""
    turns: int
    events: int
    agent_id: str
    source: str
    cwd: str
    created_at: str
    active_at: str
    """When its conversation last moved: archiving, renaming and pinning are no activity."""
    archived: bool
    pinned: bool
    tags: list[str]


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
        self._title = ""
        self._first_words = ""

    def apply(self, envelope: Envelope) -> None:
        self._turns.apply(envelope)
        self.session_id = envelope.session_id
        self.events += 1
        handler = _HANDLERS.get(envelope.type)
        if handler is not None:
            handler(self, envelope, envelope.payload)
        else:
            self.active_at = envelope.created_at

    def info(self) -> SessionInfo:
        """As it is now. A turn whose process died says running: only the store knows whether its holder lives."""
        last = self._turns.last
        return SessionInfo(
            session_id=self.session_id,
            title=self._title or self._first_words,
            status=last.status if last is not None else "idle",
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

    def _created(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self.created_at = self.active_at = envelope.created_at
        self.agent_id, self.source = _text(payload, "agent_id"), _text(payload, "source")
        self._title, self.cwd = _text(payload, "title"), _text(payload, "cwd")
        self._set_tags(payload)

    def _updated(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self._title = _text(payload, "title") or self._title
        self.archived = _flag(payload, "archived", self.archived)
        self.pinned = _flag(payload, "pinned", self.pinned)
        self._set_tags(payload)

    def _started(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self.active_at = envelope.created_at
        reason = payload.get("reason")
        asked = reason.get("input") if isinstance(reason, dict) else None
        if not self._first_words and asked is not None:
            words = asked if isinstance(asked, str) else str(asked)
            self._first_words = " ".join(words[:1000].split())[:TITLE_LENGTH]

    def _set_tags(self, payload: dict[str, Any]) -> None:
        tags = payload.get("tags")
        if isinstance(tags, list):
            self.tags = [tag for tag in tags if isinstance(tag, str)]


_HANDLERS = {
    "SESSION_CREATED": Summary._created,
    "SESSION_UPDATED": Summary._updated,
    "INVOCATION_STARTED": Summary._started,
}


def _text(payload: dict[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def _flag(payload: dict[str, Any], key: str, default: bool) -> bool:
    value = payload.get(key)
    return value if isinstance(value, bool) else default
