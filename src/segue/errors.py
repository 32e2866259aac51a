"""Every error Segue raises, one root.

    SegueError
    ├── InvalidEvent                  a fact that may not be written
    │   ├── ValueTooDeep              nested deeper than the codec's limit
    │   └── IntegerTooLarge           more than 10,000 digits
    ├── StorageError                  the store could not do what was asked
    │   ├── InvalidSessionId
    │   ├── SessionNotFound
    │   ├── SessionExists
    │   ├── CorruptJournal            damage that must be repaired before writing
    │   ├── MisplacedSession          a folder that was renamed or copied: it holds another session
    │   ├── NewerFormat               written by a newer Segue
    │   └── BlobNotFound
    ├── WriteRefused                  nothing was written, somebody else may write
    │   ├── SessionBusy               another holder has the turn lease
    │   ├── StaleWriter               an old epoch, or another expected_seq
    │   └── LeaseRequired             a turn row without the lease
    ├── SessionStateError
    │   ├── NoSession                 no ambient session here
    │   ├── TurnEnded                 the turn this writer belonged to is over
    │   ├── TurnSettled
    │   ├── TurnInProgress
    │   ├── NotResumable              nothing that could be run again, or its arguments do not decode
    │   ├── ReplayDivergence          the program does not do what it had done
    │   ├── AlreadyDecided            somebody was faster
    │   ├── NotWaiting                no such wait is open
    │   └── PendingCalls              a call in the history is still open
    ├── DefinitionError               a function or option that cannot work, found when it is declared
    │   └── RecursionLimit            (also RecursionError)
    ├── ModelError                    reaching a model failed
    │   ├── NoModel  MissingExtra  ModelAuthError  ModelRateLimited  ContextTooLong
    │   ├── BadModelRequest  ModelUnavailable  ModelTimeout
    │   ├── InvalidReply              the reply is not one of the choices, or not of the schema
    │   └── StepLimit                 the model went on calling tools
    ├── InvalidArguments              a model's arguments for a tool do not fit; the text is for the model
    ├── ToolFailed                    a tool did not do what it was called for; the text is what the model is told
    │   └── ToolDenied                a reviewer refused the call
    ├── BudgetExceeded                a limit of what the turn or its session may spend is reached
    ├── HandlerError                  a handler yielded what it may not
    └── UsageError                    the caller's words are off (exit code 2)
        ├── UnmeasuredBudget              a limit that nobody can keep: a price or a count is not known
        ├── InvalidPolicy             the approval policy cannot be what was meant
        └── InvalidAnswer             the question takes another answer

Signals are not errors: `Suspended` (with `ApprovalRequired`) and `Cancelled` derive from BaseException, so that
`except Exception` in a user's code does not swallow them.
"""

from __future__ import annotations

from collections.abc import Mapping


class SegueError(Exception):
    """Root of all errors. `str(error)` says what happened and what to do next."""

    code = "error"
    """Stable machine-readable name, also written to ERROR rows."""


class InvalidEvent(SegueError):
    """The event is not of the closed union, or a field has the wrong type. Nothing was written."""

    code = "invalid_event"


class ValueTooDeep(InvalidEvent):
    code = "value_too_deep"


class IntegerTooLarge(InvalidEvent):
    code = "integer_too_large"


class StorageError(SegueError):
    code = "storage_error"


class InvalidSessionId(StorageError):
    code = "invalid_session_id"


class SessionNotFound(StorageError):
    code = "session_not_found"


class SessionExists(StorageError):
    code = "session_exists"


class CorruptJournal(StorageError):
    """Damage inside a journal. `path`, `line` (1-based) and `offset` (bytes) say where."""

    code = "corrupt_journal"

    def __init__(self, message: str, *, path: str = "", line: int = 0, offset: int = 0) -> None:
        super().__init__(message)
        self.path, self.line, self.offset = path, line, offset


class MisplacedSession(StorageError):
    """The folder holds another session than its name says: it was renamed or copied by hand."""

    code = "misplaced_session"


class NewerFormat(StorageError):
    code = "newer_format"


class BlobNotFound(StorageError):
    code = "blob_not_found"


class WriteRefused(SegueError):
    code = "write_refused"


class SessionBusy(WriteRefused):
    """Another living holder has the turn lease. `holder` describes it (process id, source, since)."""

    code = "session_busy"

    def __init__(self, message: str, *, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


class StaleWriter(WriteRefused):
    code = "stale_writer"


class LeaseRequired(WriteRefused):
    code = "lease_required"


class SessionStateError(SegueError):
    code = "session_state"


class NoSession(SessionStateError):
    code = "no_session"


class TurnEnded(SessionStateError):
    code = "turn_ended"


class TurnSettled(SessionStateError):
    code = "turn_settled"


class TurnInProgress(SessionStateError):
    code = "turn_in_progress"


class NotResumable(SessionStateError):
    code = "not_resumable"


class ReplayDivergence(SessionStateError):
    """The program that runs again does not do what the record says it did. `node_id` is the recorded call, if any."""

    code = "replay_divergence"

    def __init__(self, message: str, *, node_id: str = "") -> None:
        super().__init__(message)
        self.node_id = node_id


class AlreadyDecided(SessionStateError):
    """Somebody else decided first. `decision` says how: granted, denied, answered or resolved."""

    code = "already_decided"

    def __init__(self, message: str, *, decision: str) -> None:
        super().__init__(message)
        self.decision = decision


class NotWaiting(SessionStateError):
    code = "not_waiting"


class PendingCalls(SessionStateError):
    code = "pending_calls"

    def __init__(self, message: str, *, call_ids: list[str] | None = None) -> None:
        super().__init__(message)
        self.call_ids = call_ids or []


class DefinitionError(SegueError):
    code = "definition_error"


class RecursionLimit(DefinitionError, RecursionError):
    code = "recursion_limit"


class ModelError(SegueError):
    """Reaching a model failed. `retryable` tells whether the same request may succeed later."""

    code = "model_error"
    retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the provider asked to wait, or None."""


class NoModel(ModelError):
    code = "no_model"


class MissingExtra(ModelError):
    code = "missing_extra"


class ModelAuthError(ModelError):
    code = "model_auth"


class ModelRateLimited(ModelError):
    code = "model_rate_limited"
    retryable = True


class ContextTooLong(ModelError):
    code = "context_too_long"


class BadModelRequest(ModelError):
    code = "bad_model_request"


class ModelUnavailable(ModelError):
    """Network failure, a broken stream, or a server error (5xx)."""

    code = "model_unavailable"
    retryable = True


class ModelTimeout(ModelError):
    """The deadline of the call passed, retries included."""

    code = "model_timeout"


class InvalidReply(ModelError):
    """The model answered, but not with one of the choices or a value of the schema. `reply` is its text."""

    code = "invalid_reply"

    def __init__(self, message: str, *, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply


class InvalidArguments(SegueError):
    """What a model gave a tool is no JSON object, or does not fit the tool's parameters. Nothing was run.

    The text is for the model: which parameter, what was expected, what came. `problems` are its lines alone.
    """

    code = "invalid_arguments"

    def __init__(self, message: str, *, problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.problems = problems or []


class ToolFailed(SegueError):
    """Its text is what the model is told: the tool raised, took too long, is not there, or its arguments do not fit."""

    code = "tool_failed"


class ToolDenied(ToolFailed):
    """A reviewer denied the call; it did not run."""

    code = "tool_denied"


class HandlerError(SegueError):
    """A handler yielded something else than an event it may yield, or anything after the end or a suspension."""

    code = "handler_error"


class StepLimit(ModelError):
    """The model was called as often as `exec` allows, and still wanted to call tools instead of answering."""

    code = "step_limit"


class BudgetExceeded(SegueError):
    """What the turn, or its session, may spend is spent. `limit` is seconds, model_calls, tokens or cost, `scope` turn
    or session. The turn has ended as failed; the session stays usable."""

    code = "budget_exceeded"

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        scope: str = "turn",
        spent: int | float = 0,
        allowed: int | float = 0,
    ) -> None:
        super().__init__(message)
        self.limit, self.scope, self.spent, self.allowed = limit, scope, spent, allowed


class UsageError(SegueError):
    code = "usage"


class UnmeasuredBudget(UsageError):
    """The budget has a limit that cannot be kept: nobody knows the model's price, or it does not say what it used. The
    model is not asked."""

    code = "unmeasured_budget"


class InvalidPolicy(UsageError):
    """The approval policy is malformed, or names a tool that is not there. Nothing is started under it."""

    code = "invalid_policy"


class InvalidAnswer(UsageError):
    """The answer is none of the question's options, or not of its schema. `problems` says what does not fit."""

    code = "invalid_answer"

    def __init__(self, message: str, *, problems: list[str] | None = None) -> None:
        super().__init__(message)
        self.problems = problems or []


class Suspended(BaseException):
    """Signal: the turn has an open wait. Not an error: an answer from anywhere lets it go on."""

    def __init__(
        self, session_id: str, wait_ids: list[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        self.session_id, self.wait_ids = session_id, wait_ids
        self.elsewhere = dict(elsewhere or {})
        """Wait id -> session, of those that another session has: one that the turn opened inside."""
        places = (
            f" (of session {self.elsewhere[wait]})" if wait in self.elsewhere else "" for wait in wait_ids
        )
        named = (f"{wait}{place}" for wait, place in zip(wait_ids, places, strict=True))
        super().__init__(f"session {session_id} waits for {', '.join(named)}")


class ApprovalRequired(Suspended):
    """Signal: a call waits for an approval. `name`, `arguments` (a JSON value) and `tool_call_id` say which."""

    def __init__(
        self, session_id: str, wait_ids: list[str], *, tool_call_id: str, name: str, arguments: object
    ) -> None:
        super().__init__(session_id, wait_ids)
        self.tool_call_id, self.name, self.arguments = tool_call_id, name, arguments


class Cancelled(BaseException):
    """Signal: the turn was cancelled by CANCEL_REQUESTED."""


def by_code(code: str) -> type[SegueError] | None:
    """The error class that has that code."""
    classes = (
        found for found in globals().values() if isinstance(found, type) and issubclass(found, SegueError)
    )
    return next((found for found in classes if found.code == code), None)
