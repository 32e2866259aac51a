"""The closed union of facts. Each class is one `type`; its fields are the payload.

Writing is strict: a field of the wrong type is refused by `segue.events.codec`. Fields that are None or empty by
default are left out on disk. `called_by`, where present, is the node id of the agentic call that the row was written
inside; rows with it belong to that call's own history, not to the conversation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all facts. Subclasses set `TYPE`; `CONTROL` rows need no turn lease."""

    TYPE: ClassVar[str] = ""
    CONTROL: ClassVar[bool] = False

    v: int = 1
    """Version of the payload's shape; upcasts bring older ones up. Left out on disk while it is 1."""


# --- turn rows: only the holder of the turn lease writes them ---------------------------------------------------


class InvocationStarted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "INVOCATION_STARTED"
    invocation_id: str
    turn_id: str
    reason: dict[str, Any]
    """`{kind: user_message | direct_call | approval_decision | question_answer | recovery, input?, decision?, ...}`"""
    agent_id: str = ""
    source: str = ""
    """The entry point: cli, code, test, server, ..."""
    attempt: int = 1
    resumes: str = ""
    """The settled turn that this new turn resumes."""
    budget: dict[str, Any] | None = None
    """What the turn may spend: `{seconds?, model_calls?, tokens?, cost?, session?}`, with the same in `session` for all
    turns of the session together. It holds for later attempts too, unless they have one of their own."""


class NoMoreActions(Event, frozen=True, kw_only=True):
    """The turn finished."""

    TYPE: ClassVar[str] = "NO_MORE_ACTIONS"
    turn_id: str = ""


class Error(Event, frozen=True, kw_only=True):
    """The turn's code failed. NO_MORE_ACTIONS follows."""

    TYPE: ClassVar[str] = "ERROR"
    message: str
    code: str = ""


class SessionError(Event, frozen=True, kw_only=True):
    """The turn died from outside: its process ended, its runner failed."""

    TYPE: ClassVar[str] = "SESSION_ERROR"
    message: str
    code: str = ""
    turn_id: str = ""


class TurnSuspended(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TURN_SUSPENDED"
    turn_id: str
    waits: list[str] = []
    """Ids of the open waits: tool call ids and question ids."""
    elsewhere: dict[str, str] = {}
    """Wait id -> session, of those that are another session's, which was opened inside the turn."""


class TurnCancelled(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TURN_CANCELLED"
    turn_id: str
    reason: str = ""


class BudgetWarning(Event, frozen=True, kw_only=True):
    """Four fifths of a limit are spent. Once for each limit of a turn."""

    TYPE: ClassVar[str] = "BUDGET_WARNING"
    turn_id: str
    scope: Literal["turn", "session"]
    limit: Literal["seconds", "model_calls", "tokens", "cost"]
    spent: int | float
    """Seconds, calls, tokens, or US dollars."""
    allowed: int | float


class UsageReported(Event, frozen=True, kw_only=True):
    """What a turn of another session, opened inside this one, has spent on models in all: of its rows the last counts.
    Written where this turn has a budget, which that one counts to."""

    TYPE: ClassVar[str] = "USAGE_REPORTED"
    session_id: str
    turn_id: str
    """The other session's."""
    models: dict[str, Any]
    """By model `{calls, usage?, unpriced?, uncounted?}`: how many calls, what their ends say in `usage`, how much of
    that is of calls that do not say their cost, and how many calls do not say what they used."""


class HeadMoved(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "HEAD_MOVED"
    to_seq: int
    """The row before a turn's first INVOCATION_STARTED; later rows leave the active path."""
    reason: str = ""


class MessageStart(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "MESSAGE_START"
    message_id: str
    role: Literal["system", "developer", "user", "assistant"] = "assistant"
    called_by: str = ""


class MessageDelta(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "MESSAGE_DELTA"
    message_id: str
    delta: dict[str, Any]
    """`{type: text | reasoning, text}`; any other shape is a provider's own chunk, kept verbatim."""
    whole: str = ""
    """Digest under `files/` of the text as JSON, when it was too large for a row, which has its beginning and end."""
    called_by: str = ""


class MessageEnd(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "MESSAGE_END"
    message_id: str
    finish_reason: str = ""
    framework_state: Any = None
    called_by: str = ""


class ToolCall(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_CALL"
    tool_call_id: str
    name: str
    arguments: Any
    """A JSON value, or the model's own text where it was not a JSON object."""
    called_by: str = ""


class ToolStarted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_STARTED"
    tool_call_id: str
    attempt: int = 1
    idempotency_key: str = ""
    idempotent: bool = False
    """It may be done again after a crash without asking anybody: declared so, or an agentic function, whose steps are
    recorded themselves."""
    called_by: str = ""


class ToolResult(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_RESULT"
    tool_call_id: str
    result: Any
    """null, false, 0, {} and [] are results."""
    is_error: bool = False
    whole: str = ""
    """Digest under `files/` of the result as JSON, when it was too large for a row, which has its beginning and end."""
    called_by: str = ""


class ToolApprovalRequired(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_APPROVAL_REQUIRED"
    tool_call_id: str
    name: str
    arguments: Any
    reason: str = ""
    digest: str = ""
    """Of name and arguments as they will run; a grant names it."""
    declaration: str = ""
    """Digest of the tool as it is declared; a rule names it. Empty where no tool is asked for."""
    called_by: str = ""


class TranscriptCompacted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TRANSCRIPT_COMPACTED"
    messages: list[dict[str, Any]]
    replaces_up_to_seq: int


class QuestionAsked(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "QUESTION_ASKED"
    question_id: str
    """Also the node id of the question in the call graph."""
    question: str
    options: list[str] = []
    schema: dict[str, Any] | None = None
    timeout: float | None = None
    """Seconds, or None to wait for ever."""
    called_by: str = ""


class CallStarted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "CALL_STARTED"
    node_id: str
    kind: Literal["function", "model", "tool", "question", "step"]
    name: str
    """Functions: `module:qualname`. Models: the model's name."""
    called_by: str = ""
    """Node id of the caller; empty for a root call."""
    predecessor: str = ""
    """Node id of the call before it: the previous sibling of the same caller, or the previous root call."""
    arguments: Any = None
    attempt: int = 1
    instead_of: str = ""
    """Node id of the same call in an earlier attempt of the turn, which ended in failure: this one is in its place."""
    turn_id: str = ""
    doc: str = ""
    """The function's docstring as the model gets it."""
    expose: str = ""
    context: str = ""
    """Models: digest of the entry under context/ that says what was sent."""


class CallEnded(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "CALL_ENDED"
    node_id: str
    status: Literal["completed", "failed", "cancelled", "interrupted", "suspended"]
    """completed, failed, cancelled are terminal and the first one wins; the others are not."""
    result: Any = UNSET
    error: dict[str, Any] | None = None
    """`{type, message, code?}`"""
    usage: dict[str, Any] | None = None
    """`{input_tokens, output_tokens, ..., cost?}`; `cost` in US dollars, where a budget limits it."""
    whole: str = ""
    """Digest under `files/` of the result as JSON, when it was too large for a row, which has its beginning and end."""


class FileBackedUp(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "FILE_BACKED_UP"
    turn_id: str
    node_id: str = ""
    path: str
    existed: bool
    blob: str = ""


class RowLost(Event, frozen=True, kw_only=True):
    """Stands where a row was that is lost: damaged, and no copy of it left. Written by `segue sessions repair` only, so
    that positions keep their rows and nobody reads a shortened journal for a whole one. Folds ignore it."""

    TYPE: ClassVar[str] = "ROW_LOST"
    reason: str


# --- control rows: anyone appends them, at any time ----------------------------------------------------------------


class SessionCreated(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "SESSION_CREATED"
    CONTROL: ClassVar[bool] = True
    agent_id: str = ""
    source: str = ""
    title: str = ""
    cwd: str = ""
    tags: list[str] = []
    forked_from: dict[str, Any] | None = None
    """`{session_id, seq}`"""


class SessionUpdated(Event, frozen=True, kw_only=True):
    """Only the fields that change are set."""

    TYPE: ClassVar[str] = "SESSION_UPDATED"
    CONTROL: ClassVar[bool] = True
    title: str | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET


class TurnSubmitted(Event, frozen=True, kw_only=True):
    """Something to do, for whoever runs the session's turns. Submitting it again under the same `client_id` is nothing
    new."""

    TYPE: ClassVar[str] = "TURN_SUBMITTED"
    CONTROL: ClassVar[bool] = True
    client_id: str
    reason: dict[str, Any]
    mode: Literal["queue", "steer", "refuse"] = "queue"
    turn_id: str = ""
    """Of the turn that it begins; of a message that steers, its id in the conversation."""
    agent_id: str = ""
    """The route of the handler that is to run it."""
    budget: dict[str, Any] | None = None
    """What the turn may spend, as in INVOCATION_STARTED."""


class CancelRequested(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "CANCEL_REQUESTED"
    CONTROL: ClassVar[bool] = True
    turn_id: str = ""
    reason: str = ""


class ToolApprovalGranted(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_APPROVAL_GRANTED"
    CONTROL: ClassVar[bool] = True
    tool_call_id: str
    digest: str = ""
    arguments: Any = UNSET
    """Edited arguments, when the reviewer changed them."""
    approver: str = ""
    expires_at: str = ""
    rule_id: str = ""
    """Of the rule that granted it, when no person did."""


class ToolApprovalDenied(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "TOOL_APPROVAL_DENIED"
    CONTROL: ClassVar[bool] = True
    tool_call_id: str
    reason: str = ""
    approver: str = ""


class ApprovalRuleSet(Event, frozen=True, kw_only=True):
    """Somebody grants calls of a tool ahead, in this session. Set again with `withdrawn`, the rule is none any more."""

    TYPE: ClassVar[str] = "APPROVAL_RULE_SET"
    CONTROL: ClassVar[bool] = True
    rule_id: str
    tool: str
    declaration: str = ""
    """Digest of the tool as it was declared when its call was shown: the rule is for no other one."""
    predicate: dict[str, Any] | None = None
    """`{arguments}`: calls with exactly these arguments; null: with any."""
    session_id: str = ""
    """The session it is for: in a copy of the row in another session it is no rule."""
    by: str = ""
    withdrawn: bool = False


class QuestionAnswered(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "QUESTION_ANSWERED"
    CONTROL: ClassVar[bool] = True
    question_id: str
    answer: Any
    by: str = ""


class CallResolved(Event, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "CALL_RESOLVED"
    CONTROL: ClassVar[bool] = True
    call_id: str
    action: Literal["retry", "skip", "result"]
    result: Any = UNSET
    by: str = ""


def _leaves(cls: type[Event]) -> list[type[Event]]:
    return [leaf for sub in cls.__subclasses__() for leaf in [sub, *_leaves(sub)]]


EVENTS: dict[str, type[Event]] = {cls.TYPE: cls for cls in _leaves(Event)}
"""Type string -> class, for the whole union."""

EVENT_TYPES: frozenset[str] = frozenset(EVENTS)
CONTROL_TYPES: frozenset[str] = frozenset(name for name, cls in EVENTS.items() if cls.CONTROL)
