"""What a listing says of a session."""

from __future__ import annotations

from typing import Any

from segue.events.envelope import Envelope
from segue.fold.turns import Turns

TITLE_LENGTH = 80


class Summary:
    """Incremental: `apply` rows in order."""

    def __init__(self) -> None:
        self.session_id = ""
        self.agent_id = ""
        self.source = ""
        self.cwd = ""
        self.created_at = ""
        self.active_at = ""
        """When its conversation last moved: archiving, renaming and pinning are no activity."""
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

    @property
    def title(self) -> str:
        """What a person called it, else the first user words, on one line of at most 80 characters."""
        return self._title or self._first_words

    @property
    def turns(self) -> int:
        return len(self._turns)

    @property
    def status(self) -> str:
        """Of the last turn; `idle` before the first. See `Turn.status` for what running means."""
        last = self._turns.last
        return last.status if last is not None else "idle"

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
