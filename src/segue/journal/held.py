"""What a journal holds back for a moment: streamed text that is still growing, and whole rows before and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from segue.events.facts import Event, MessageDelta
from segue.stores.protocol import Draft, Lease

DeltaKind = Literal["text", "reasoning"]


class Held:
    """Rows that wait, in order: whole ones, and the text that is still growing."""

    def __init__(self, lease: Lease, draft: Callable[[Event], Draft]) -> None:
        self.lease = lease
        self.size = 0
        self._draft = draft
        self._drafts: list[Draft] = []
        self._message: tuple[str, DeltaKind, str] | None = None
        self._texts: list[str] = []

    def add(self, event: Event) -> None:
        self._seal()
        self._drafts.append(self._draft(event))

    def add_text(self, message_id: str, kind: DeltaKind, text: str, called_by: str) -> None:
        """More of the same message, kind and caller joins what is there."""
        if self._message != (message_id, kind, called_by):
            self._seal()
            self._message = (message_id, kind, called_by)
        self._texts.append(text)
        self.size += len(text.encode("utf-8", "surrogatepass"))

    def drafts(self) -> list[Draft]:
        self._seal()
        return self._drafts

    def _seal(self) -> None:
        if self._message is not None:
            message_id, kind, called_by = self._message
            delta = {"type": kind, "text": "".join(self._texts)}
            self._message, self._texts = None, []
            self._drafts.append(
                self._draft(MessageDelta(message_id=message_id, delta=delta, called_by=called_by))
            )
