"""Which sessions a listing or a search is about."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import msgspec

from segue.index.words import SEPARATOR, cleaned

DAMAGED = "damaged"
"""Status of a session whose journal cannot be read; its title says why."""


class FilterFields(TypedDict, total=False):
    """The fields of `Filters` that say which sessions."""

    status: str | None
    agent: str | None
    source: str | None
    tag: str | None
    archived: bool | None
    pinned: bool | None
    since: str | None
    until: str | None
    title: str | None


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """All that are given have to hold; None lets every session pass."""

    status: str | None = None
    """As `SessionInfo.status`, or `damaged`."""
    agent: str | None = None
    source: str | None = None
    tag: str | None = None
    archived: bool | None = None
    pinned: bool | None = None
    since: str | None = None
    """Last active at this time or later; RFC 3339 in UTC, or the beginning of it."""
    until: str | None = None
    """Last active before this time."""
    title: str | None = None
    """Text in the title, in any case."""
    without_turns: bool = True
    """Also sessions that never had a turn."""

    def condition(self, alive: list[str]) -> tuple[str, dict[str, Any]]:
        """SQL and its values. `alive` are the sessions that say running and have a living holder."""
        given = [(sql, name) for name, sql in _CONDITIONS.items() if getattr(self, name) is not None]
        values: dict[str, Any] = {name: _value(name, getattr(self, name)) for _, name in given}
        conditions = [sql for sql, _ in given]
        if not self.without_turns:
            conditions.append("(turns > 0 OR status IN ('damaged', 'queued'))")
        if self.status in ("running", "interrupted"):
            conditions.append(_BY_HOLDER[self.status])
            values["alive"] = json.dumps(alive)
        elif self.status is not None:
            conditions.append("status = :status")
            values["status"] = cleaned(self.status)
        return " AND ".join(conditions) or "true", values


_CONDITIONS = {
    "agent": "agent_id = :agent",
    "source": "source = :source",
    "tag": "instr(tags, :tag) > 0",
    "archived": "archived = :archived",
    "pinned": "pinned = :pinned",
    "since": "active_at >= :since",
    "until": "active_at < :until",
    "title": "instr(title, :title) > 0",
}
_HELD = "session_id IN (SELECT value FROM json_each(:alive))"
_BY_HOLDER = {
    "running": f"status = 'running' AND {_HELD}",
    "interrupted": f"(status = 'interrupted' OR (status = 'running' AND NOT {_HELD}))",
}


def title_key(title: str) -> str:
    return cleaned(title).casefold()


def tags_key(tags: list[str]) -> str:
    return SEPARATOR + "".join(f"{cleaned(tag)}{SEPARATOR}" for tag in tags)


def _value(name: str, given: Any) -> Any:
    if name == "tag":
        return tags_key([given])
    if name == "title":
        return title_key(given)
    return cleaned(given) if isinstance(given, str) else given
