"""What the session waits for: approvals, questions, and started calls whose outcome nobody knows. At every depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.conversation import Conversation
from segue.fold.diagnostics import Payload, text_or
from segue.fold.saved import ConversationChanges


class Wait(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    kind: str
    """approval, question or unknown_outcome."""
    id: str
    """Tool call id or question id."""
    name: str = ""
    """The tool's name; the question's text."""
    arguments: Any = None
    """Of the tool. Shared with the envelope: never change it."""
    options: list[str] = []
    schema: dict[str, Any] | None = None
    """JSON schema of the answer to a question."""
    declaration: str = ""
    """Of an approval: digest of the tool as it is declared; empty where no tool is asked for."""
    called_by: str = ""
    """Node of the agentic call it is inside; empty for the conversation's own."""
    seq: int = 0
    """Of the row that opened it."""
    turn_id: str = ""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A tool call without a result."""

    id: str
    name: str
    arguments: Any = None
    """Shared with the envelope: never change it."""
    called_by: str = ""
    """As of a `Wait`."""
    turn_id: str = ""
    asked: bool = False
    """Whether an approval was asked for."""
    started: bool = False


class WaitsState(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """All of it: there is little."""

    turn_id: str = ""
    running: bool = False
    cancelling: bool = False
    approvals: list[Wait] = []
    questions: list[Wait] = []
    unknown: list[Wait] = []
    started: list[Wait] = []
    calls: list[OpenCall] = []
    conversations: list[tuple[str | None, ConversationChanges]] = []
    """By node, what may still become pending."""


class Waits:
    """Incremental: `apply` rows in order; `open` answers in O(open waits).

    An approval is open until it is decided, its tool starts or has a result, or its conversation goes on without
    it; a question until it is answered; both at most until their turn settles, or
    stops when it was asked to be cancelled. A started tool without a result is
    a wait from the SESSION_ERROR of its invocation on, until CALL_RESOLVED or its result; not one that is idempotent.
    """

    CHANGES = WaitsState

    def __init__(self) -> None:
        self._turn_id = ""
        self._running = self._cancelling = False
        """Whether that turn runs, and was asked to be cancelled meanwhile."""
        self._approvals: dict[str, Wait] = {}
        self._questions: dict[str, Wait] = {}
        self._unknown: dict[str, Wait] = {}
        self._started: dict[str, Wait] = {}
        self._calls: dict[str, OpenCall] = {}
        self._conversations: dict[str | None, Conversation] = {None: Conversation()}
        """By node: who may say that a conversation left its pending call behind."""

    def apply(self, envelope: Envelope) -> None:
        if envelope.type == "MESSAGE_DELTA" or type(envelope.payload) is not dict:
            return
        self._converse(envelope, envelope.payload)
        handler = _HANDLERS.get(envelope.type)
        if handler is not None:
            handler(self, envelope, envelope.payload)

    @property
    def open(self) -> list[Wait]:
        """In the order they were opened."""
        approvals = [wait for wait in self._approvals.values() if self._is_pending(wait)]
        found = [*approvals, *self._questions.values(), *self._unknown.values()]
        return sorted(found, key=lambda wait: wait.seq)

    def open_calls(self, turn_id: str) -> list[OpenCall]:
        """The tool calls of a turn that have no result, in the order they were made."""
        return [call for call in self._calls.values() if call.turn_id == turn_id]

    def get(self, wait_id: str) -> Wait | None:
        """The open wait of that tool call or question."""
        return next((wait for wait in self.open if wait.id == wait_id), None)

    # --- saving ---

    def changes(self, *, whole: bool = False) -> WaitsState:
        """The state. What the conversations left behind is forgotten: nothing of it can become pending again."""
        return WaitsState(
            turn_id=self._turn_id,
            running=self._running,
            cancelling=self._cancelling,
            approvals=list(self._approvals.values()),
            questions=list(self._questions.values()),
            unknown=list(self._unknown.values()),
            started=list(self._started.values()),
            calls=list(self._calls.values()),
            conversations=[(node, kept.shortened()) for node, kept in self._conversations.items()],
        )

    @classmethod
    def restored(cls, changes: Sequence[WaitsState]) -> Waits:
        """The waits whose state was the last of these."""
        waits, state = cls(), changes[-1]
        waits._turn_id, waits._running, waits._cancelling = state.turn_id, state.running, state.cancelling
        waits._approvals = {wait.id: wait for wait in state.approvals}
        waits._questions = {wait.id: wait for wait in state.questions}
        waits._unknown = {wait.id: wait for wait in state.unknown}
        waits._started = {wait.id: wait for wait in state.started}
        waits._calls = {call.id: call for call in state.calls}
        waits._conversations = {
            node: Conversation.restored([kept], node) for node, kept in state.conversations
        }
        return waits

    # --- conversations ---

    def _converse(self, envelope: Envelope, payload: Payload) -> None:
        """Calls get a conversation with their first tool row, so that those without tools cost nothing."""
        node = text_or(payload.get("called_by")) or None
        conversation = self._conversations.get(node)
        if conversation is None and envelope.type in ("TOOL_CALL", "TOOL_APPROVAL_REQUIRED"):
            conversation = self._conversations[node] = Conversation(node)
        if conversation is not None:
            conversation.apply(envelope)

    def _is_pending(self, wait: Wait) -> bool:
        conversation = self._conversations.get(wait.called_by or None)
        pending = conversation.pending_tool_calls if conversation is not None else []
        return any(call["tool_call_id"] == wait.id for call in pending)

    # --- rows ---

    def _invocation_started(self, envelope: Envelope, payload: Payload) -> None:
        self._turn_id = text_or(payload.get("turn_id"))
        self._running, self._cancelling = True, False

    def _tool_call(self, envelope: Envelope, payload: Payload) -> None:
        call_id = text_or(payload.get("tool_call_id"))
        if call_id:
            known = self._calls.pop(call_id, None)
            if known is not None and known.turn_id != self._turn_id:
                known = None
            self._calls[call_id] = OpenCall(
                id=call_id,
                name=text_or(payload.get("name")),
                arguments=payload.get("arguments"),
                called_by=text_or(payload.get("called_by")),
                turn_id=self._turn_id,
                asked=envelope.type == "TOOL_APPROVAL_REQUIRED" or (known is not None and known.asked),
                started=known is not None and known.started,
            )

    def _approval_required(self, envelope: Envelope, payload: Payload) -> None:
        self._tool_call(envelope, payload)
        wait = self._tool_wait("approval", envelope, payload)
        if wait.id:
            declaration = text_or(payload.get("declaration"))
            self._approvals[wait.id] = msgspec.structs.replace(wait, declaration=declaration)

    def _tool_started(self, envelope: Envelope, payload: Payload) -> None:
        wait = self._tool_wait("unknown_outcome", envelope, payload)
        self._unknown.pop(wait.id, None)
        self._approvals.pop(wait.id, None)
        if wait.id and payload.get("idempotent") is not True:
            self._started[wait.id] = wait
        call = self._calls.get(wait.id)
        if call is not None:
            self._calls[call.id] = msgspec.structs.replace(call, started=True)

    def _tool_result(self, envelope: Envelope, payload: Payload) -> None:
        call_id = text_or(payload.get("tool_call_id"))
        for known in (self._approvals, self._unknown, self._started, self._calls):
            known.pop(call_id, None)

    def _decided(self, envelope: Envelope, payload: Payload) -> None:
        self._approvals.pop(text_or(payload.get("tool_call_id")), None)

    def _question_asked(self, envelope: Envelope, payload: Payload) -> None:
        question_id, options = text_or(payload.get("question_id")), payload.get("options")
        schema = payload.get("schema")
        if not question_id:
            return
        self._questions[question_id] = Wait(
            kind="question",
            id=question_id,
            name=text_or(payload.get("question")),
            options=[text_or(option) for option in options] if type(options) is list else [],
            schema=schema if type(schema) is dict else None,
            called_by=text_or(payload.get("called_by")),
            seq=envelope.seq,
            turn_id=self._turn_id,
        )

    def _question_answered(self, envelope: Envelope, payload: Payload) -> None:
        self._questions.pop(text_or(payload.get("question_id")), None)

    def _session_error(self, envelope: Envelope, payload: Payload) -> None:
        self._unknown |= self._started
        self._started = {}
        self._stopped()

    def _turn_suspended(self, envelope: Envelope, payload: Payload) -> None:
        """A started call that the turn waits for: it began in an earlier attempt, and nobody knows how it ended."""
        waits = payload.get("waits")
        for wait in waits if type(waits) is list else ():
            if type(wait) is str and wait in self._started:
                self._unknown[wait] = self._started.pop(wait)
        self._stopped()

    def _stopped(self) -> None:
        """Nothing is asked any more of a turn that was to be cancelled, and stopped without knowing it."""
        self._running = False
        if self._cancelling:
            self._close(lambda wait: wait.turn_id == self._turn_id)

    def _cancel_requested(self, envelope: Envelope, payload: Payload) -> None:
        turn_id = text_or(payload.get("turn_id")) or self._turn_id
        if turn_id == self._turn_id and self._running:
            self._cancelling = True
        else:
            self._close(lambda wait: wait.turn_id == turn_id)

    def _call_resolved(self, envelope: Envelope, payload: Payload) -> None:
        self._unknown.pop(text_or(payload.get("call_id")), None)

    def _call_ended(self, envelope: Envelope, payload: Payload) -> None:
        """Nothing inside a call that settled is asked any more. A tool that a wait of its own stopped is entered again:
        its outcome is not unknown."""
        node = text_or(payload.get("node_id"))
        if payload.get("status") in ("suspended", "cancelled"):
            self._started.pop(node, None)
        if payload.get("status") in ("completed", "failed", "cancelled") and node:
            self._close(lambda wait: wait.called_by == node)
            self._conversations.pop(node, None)

    def _turn_settled(self, envelope: Envelope, payload: Payload) -> None:
        turn_id = text_or(payload.get("turn_id")) or self._turn_id
        self._running = self._running and turn_id != self._turn_id
        self._close(lambda wait: wait.turn_id == turn_id)

    def _close(self, belongs: Any) -> None:
        for waits in (self._approvals, self._questions):
            for wait in [wait for wait in waits.values() if belongs(wait)]:
                del waits[wait.id]

    def _tool_wait(self, kind: str, envelope: Envelope, payload: Payload) -> Wait:
        call_id = text_or(payload.get("tool_call_id"))
        call = self._calls.get(call_id)
        called_by = text_or(payload.get("called_by"))
        return Wait(
            kind=kind,
            id=call_id,
            name=call.name if call else "",
            arguments=call.arguments if call else None,
            called_by=called_by,
            seq=envelope.seq,
            turn_id=self._turn_id,
        )


_HANDLERS = {
    "INVOCATION_STARTED": Waits._invocation_started,
    "TOOL_CALL": Waits._tool_call,
    "TOOL_APPROVAL_REQUIRED": Waits._approval_required,
    "TOOL_APPROVAL_GRANTED": Waits._decided,
    "TOOL_APPROVAL_DENIED": Waits._decided,
    "TOOL_STARTED": Waits._tool_started,
    "TOOL_RESULT": Waits._tool_result,
    "QUESTION_ASKED": Waits._question_asked,
    "QUESTION_ANSWERED": Waits._question_answered,
    "SESSION_ERROR": Waits._session_error,
    "TURN_SUSPENDED": Waits._turn_suspended,
    "CALL_RESOLVED": Waits._call_resolved,
    "CALL_ENDED": Waits._call_ended,
    "NO_MORE_ACTIONS": Waits._turn_settled,
    "TURN_CANCELLED": Waits._turn_settled,
    "CANCEL_REQUESTED": Waits._cancel_requested,
}
