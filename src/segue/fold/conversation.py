"""The conversation: journal rows in, chat messages out.

Every prefix of every journal gives a history that a chat-completions provider accepts. Nothing is written:
what is synthesised (interrupted calls, a cut-off message) exists in the view alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Diagnostic, Malformed
from segue.fold.entries import Message
from segue.fold.history import History
from segue.fold.path import active
from segue.fold.rows import HANDLERS
from segue.fold.saved import ConversationChanges, restored, save, shorten
from segue.fold.values import copy_json


class Conversation:
    """An incremental view of one conversation: the session's own (`call=None`), or that of one agentic call.

    `apply` takes one row in O(1) amortised and never fails. HEAD_MOVED is not followed: give it the rows of
    `path.active`, and start anew when the head moves.
    """

    ACTIVE_PATH = True
    CHANGES = ConversationChanges

    def __init__(self, call: str | None = None) -> None:
        self.call = call
        """The node whose rows are taken; None takes those that belong to no call."""
        self._history = History()
        self._diagnostics: list[Diagnostic] = []
        self._unsaved = 0
        """The first diagnostic that was not saved."""

    def apply(self, envelope: Envelope) -> None:
        handler = HANDLERS.get(envelope.type)
        if handler is None:
            return
        try:
            payload = envelope.payload
            if type(payload) is not dict:
                raise Malformed("the payload is not an object")
            if (payload.get("called_by") or None) == self.call:
                handler(self._history, payload)
        except Malformed as error:
            self._diagnostics.append(Diagnostic(envelope.seq, envelope.type, str(error)))

    def extend(self, transcript: Iterable[Envelope]) -> Conversation:
        """Apply all rows; returns itself. Faster than one by one: nine tenths of all rows add text to the message
        that the row before added text to."""
        apply, texts, message_id = self.apply, None, None
        for envelope in transcript:
            if envelope.type != "MESSAGE_DELTA":
                apply(envelope)
                texts = None
                continue
            payload = envelope.payload
            if texts is not None:
                try:
                    delta = payload["delta"]
                    if (
                        payload["message_id"] == message_id
                        and delta["type"] == "text"
                        and "called_by" not in payload
                    ):
                        text = delta["text"]
                        if type(text) is str:
                            texts.append(text)
                            continue
                except (KeyError, TypeError):  # `apply` notes what is wrong with it
                    pass
            apply(envelope)
            texts, message_id = self._growing(payload)
        return self

    def _growing(self, payload: Any) -> tuple[list[str] | None, str]:
        """Where more text of that delta's message goes, if it is open and the session's own."""
        message_id = payload.get("message_id") if type(payload) is dict else None
        if type(message_id) is not str or self.call is not None:
            return None, ""
        entry = self._history.open.get(message_id)
        return None if entry is None else entry.texts, message_id

    def messages(self, start: int = 0) -> list[Message]:
        """The messages from position `start` on; a negative one counts from the end.

        Yours to change. Costs what changed since the last reading plus what is returned.
        """
        return self._history.messages(start)

    def __len__(self) -> int:
        """How many messages there are. Costs what changed since the last reading."""
        return len(self._history)

    def answered_length(self) -> int:
        """`len`, without a last message that has a call without a result, and what follows it."""
        return self._history.answered_length()

    @property
    def pending_tool_calls(self) -> list[dict[str, Any]]:
        """Payloads of the approval requests that wait, in the order of their calls."""
        return [copy_json(call.approval) for call in self._history.pending()]

    @property
    def pending_tool_call(self) -> dict[str, Any] | None:
        """The first of `pending_tool_calls`."""
        pending = self.pending_tool_calls
        return pending[0] if pending else None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What was left out, in row order."""
        return list(self._diagnostics)

    def changes(self, *, whole: bool = False) -> ConversationChanges:
        """What changed since this was last called, or the view was restored; `whole`: since the beginning."""
        changes = save(self._history, whole=whole)
        keep, self._unsaved = 0 if whole else self._unsaved, len(self._diagnostics)
        changes.diagnostics_keep, changes.diagnostics = keep, self._diagnostics[keep:]
        return changes

    @classmethod
    def restored(cls, changes: Sequence[ConversationChanges], call: str | None = None) -> Conversation:
        """The view that gave these changes, all of them from its beginning on, at least one."""
        view = cls(call)
        view._history = restored(changes)
        for change in changes:
            view._diagnostics[change.diagnostics_keep :] = change.diagnostics
        view._unsaved = len(view._diagnostics)
        return view

    def shortened(self) -> ConversationChanges:
        """Forget all messages that no row can change any more; gives the others. What is pending stays the same, now
        and after any rows."""
        shorten(self._history)
        self._diagnostics = []
        return self.changes(whole=True)

    def copy(self) -> Conversation:
        """An equal view that can grow apart from this one. O(messages)."""
        new = Conversation(self.call)
        new._history, new._diagnostics = self._history.copy(), self._diagnostics[:]
        return new


def fold(transcript: Iterable[Envelope], call: str | None = None) -> Conversation:
    """The view of all rows on the active path."""
    return Conversation(call).extend(active(transcript))


def fold_from(view: Conversation, transcript: Iterable[Envelope]) -> Conversation:
    """A new view that also has these later rows (without HEAD_MOVED); the given one stays as it is."""
    return view.copy().extend(transcript)


def messages(transcript: Iterable[Envelope]) -> list[Message]:
    return fold(transcript).messages()


def pending_tool_call(transcript: Iterable[Envelope]) -> dict[str, Any] | None:
    return fold(transcript).pending_tool_call
