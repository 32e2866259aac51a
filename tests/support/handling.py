"""Handlers under test: driving them, saying things, and reading what is in the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from segue import drive, events
from segue.events.envelope import Envelope
from segue.fold.conversation import Conversation
from segue.models.scripted import Scripted
from segue.session import decisions
from segue.session.db import SessionDB
from segue.session.runtime import Runtime

HIDDEN = ("CALL_STARTED", "CALL_ENDED", "SESSION_CREATED")


def say(text: str, message_id: str = "m") -> list[events.Event]:
    """A whole assistant message."""
    return [
        events.MessageStart(message_id=message_id),
        events.MessageDelta(message_id=message_id, delta={"type": "text", "text": text}),
        events.MessageEnd(message_id=message_id),
    ]


def calls(*wanted: tuple[str, Any]) -> dict[str, Any]:
    """A scripted reply that calls tools."""
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


class Desk:
    """Drives an app in the session `s` and reads its record."""

    def __init__(self, db: SessionDB) -> None:
        self.db = db
        self.sessions: set[str] = set()

    async def drive(self, app: Any, *given: Any, session: str = "s", model: Scripted | None = None) -> Any:
        """One turn, to its end; without input the last one goes on. Gives the finished `Drive`."""
        runtime = None if model is None else Runtime(model)
        options: dict[str, Any] = {"input": given[0]} if given else {}
        driven = drive(app, session, db=self.db, runtime=runtime, **options)
        driven.envelopes = [envelope async for envelope in driven]  # type: ignore[attr-defined]
        return driven

    def run(self, app: Any, *given: Any, **options: Any) -> Any:
        return asyncio.run(self.drive(app, *given, **options))

    def rows(self, session: str = "s") -> list[Envelope]:
        return list(self.db.read(session))

    def types(self, session: str = "s") -> list[str]:
        return [row.type for row in self.rows(session) if row.type not in HIDDEN]

    def payloads(self, kind: str, session: str = "s") -> list[dict[str, Any]]:
        return [row.payload for row in self.rows(session) if row.type == kind]

    def messages(self, session: str = "s") -> list[dict[str, Any]]:
        return self.db.journal(session).view(Conversation).messages()

    def told(self, session: str = "s") -> list[tuple[str, Any]]:
        """The conversation as (role, content)."""
        return [(message["role"], message["content"]) for message in self.messages(session)]

    def statuses(self, session: str = "s") -> list[str]:
        return [turn.status for turn in self.db.turns(session).all]

    def waits(self, session: str = "s") -> list[tuple[str, str]]:
        return [(wait.kind, wait.id) for wait in decisions.open_waits(self.db.journal(session))]

    def approve(self, call_id: str = "", **options: Any) -> None:
        decisions.approve(self.db.journal("s"), call_id or self.waits()[0][1], **options)

    def deny(self, call_id: str = "", **options: Any) -> None:
        decisions.deny(self.db.journal("s"), call_id or self.waits()[0][1], **options)


async def events_of(*said: Any) -> AsyncIterator[Any]:
    for event in said:
        yield event
