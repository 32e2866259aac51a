"""SessionContext: the one argument of every handler."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from segue.errors import ApprovalRequired, Suspended, ToolDenied, ToolFailed, UsageError
from segue.events.codec import encode_json
from segue.events.envelope import Envelope
from segue.events.facts import ToolApprovalRequired, ToolCall, ToolResult
from segue.events.json_values import to_json
from segue.fold.conversation import Conversation
from segue.fold.values import copy_json
from segue.fold.waits import OpenCall, Waits
from segue.ids import new_id
from segue.models.protocol import ToolCallChunk
from segue.session.ambient import current_runtime
from segue.session.prompt import Message, text
from segue.session.recovery import SKIPPED
from segue.session.steering import delivered
from segue.session.tool_calls import ToolCalls, denial
from segue.session.turn import Turn
from segue.tools.digest import digest_of
from segue.tools.tool import Tool

GIVEN = ("user_message", "approval_decision")
"""The reasons that a handler is invoked for."""


class SessionContext:
    """One invocation: the conversation as it was when it began, and the reason why it began.

    A turn that goes on invokes its handler again: with an `approval_decision` when an approval was decided last; after
    a crash, or an answer to a question, with the reason of the invocation before, and a higher `attempt`.
    """

    def __init__(self, turn: Turn, tools: Mapping[str, Tool[..., Any]], seq: int) -> None:
        self.session_id, self.turn_id, self.invocation_id = turn.session_id, turn.turn_id, turn.invocation_id
        self.attempt = turn.attempt
        """Which invocation of its turn this is, from 1."""
        self.reason: dict[str, Any] = _reason(turn)
        """`{kind: user_message, input}` or `{kind: approval_decision, tool_call_id, decision}`."""
        self.tools = dict(tools)
        """By name."""
        self._turn, self._seq = turn, seq
        self._calls = ToolCalls(turn, "", self.tools, current_runtime(), own_loop=True)
        with turn.journal.viewing(Conversation) as conversation:
            self._length, self._pending = len(conversation), conversation.pending_tool_calls
        self._kept: list[Message] | None = None
        self._taken: set[str] = set()
        self._equal: Counter[str] = Counter()
        self._executing: set[str] = set()

    # --- why ---

    @property
    def input(self) -> Any:
        """What the user says: text, content parts, or a JSON value. Raises `TypeError` for another reason."""
        if self.reason.get("kind") != "user_message":
            raise TypeError(
                f"ctx.input is there for a user_message; this is a turn's {self.reason.get('kind')}"
            )
        return copy_json(self.reason["input"])

    @property
    def decision(self) -> dict[str, Any]:
        """`{approved: bool, approver?: str}`. Raises `TypeError` for another reason."""
        if self.reason.get("kind") != "approval_decision":
            kind = self.reason.get("kind")
            raise TypeError(f"ctx.decision is there for an approval_decision; this is a turn's {kind}")
        return dict(self.reason["decision"])

    # --- what was ---

    @functools.cached_property
    def transcript(self) -> list[Envelope]:
        """All rows of the session up to this invocation's INVOCATION_STARTED, read when they are first asked for."""
        return list(itertools.takewhile(lambda row: row.seq <= self._seq, self._turn.journal.read()))

    @property
    def messages(self) -> list[Message]:
        """The conversation as it was when this invocation began, the current user message included. Yours to change."""
        if self._kept is not None:
            return copy_json(self._kept)  # type: ignore[no-any-return]
        with self._turn.journal.viewing(Conversation) as conversation:
            return conversation.messages()[: self._length]

    @property
    def pending_tool_calls(self) -> list[dict[str, Any]]:
        """`{name, arguments, tool_call_id, ...}` of the calls that an approval was asked for and that were not started,
        decided or not, as it was when this invocation began."""
        return [copy_json(call) for call in self._pending]

    @property
    def pending_tool_call(self) -> dict[str, Any] | None:
        """The first of `pending_tool_calls`."""
        return copy_json(self._pending[0]) if self._pending else None

    async def steered(self) -> list[str]:
        """What users sent into this turn since this was last called, now in the conversation. Call it where every tool
        call has its result, before the model is asked again."""
        return await delivered(self._turn)

    # --- tools ---

    async def execute(self, name: str, /, *, call_id: str | None = None, **arguments: Any) -> Any:
        """Run a registered tool, in the record: TOOL_CALL unless the handler yielded it, TOOL_STARTED before,
        TOOL_RESULT after. Gives the result as the record has it, a JSON value. What is finished is not done again.

        `call_id` is that of a call in the conversation. Without it the call is the handler's own: the first pending one
        that is equal, or the k-th equal one of this turn.

        A gated call that nobody granted suspends the turn: raises the signal `ApprovalRequired`; so does one whose
        grant is for other arguments or expired. Raises `ToolDenied` for a denied call, `ToolFailed` for whatever else
        went wrong: its text is the call's result, which the model is told.
        """
        given = self.as_it_would_run(name, arguments)
        call_id = call_id or self._waiting(name, given) or self._own_id(name, given)
        if call_id in self._executing:
            raise UsageError(f"the tool call {call_id} is being executed already")
        self._executing.add(call_id)
        try:
            return await self._execute(ToolCallChunk(call_id, name, encode_json(given).decode()), given)
        finally:
            self._executing.discard(call_id)

    def request_approval(self, name: str, arguments: Mapping[str, Any]) -> NoReturn:
        """Ask for an approval of something that no single tool says: always raises `ApprovalRequired`.

        When it is decided the handler is invoked with an `approval_decision`, and `pending_tool_call` says which.
        """
        given = self.as_it_would_run(name, dict(arguments))
        call_id = new_id("call")
        self._turn.submit(
            ToolApprovalRequired(
                tool_call_id=call_id, name=name, arguments=given, digest=digest_of(name, given)
            )
        )
        signal = self._turn.wait_opened(call_id, "")
        raise ApprovalRequired(
            self.session_id, signal.wait_ids, tool_call_id=call_id, name=name, arguments=given
        )

    async def _execute(self, call: ToolCallChunk, given: Any) -> Any:
        known = self._calls.known(call.id)
        if known is None:
            await self._turn.append_async(ToolCall(tool_call_id=call.id, name=call.name, arguments=given))
        try:
            answer = (await self._calls.answers("", [call]))[call.id]
        except Suspended as signal:
            raise self._as_asked(signal, call) from None
        if not answer.is_error:
            return copy_json(answer.result)
        decision = self._turn.replay.decision(known, call.id)
        denied = decision is not None and decision.type == "TOOL_APPROVAL_DENIED"
        raise (ToolDenied if denied else ToolFailed)(text(answer.result))

    def _as_asked(self, signal: Suspended, call: ToolCallChunk) -> Suspended:
        with self._turn.journal.viewing(Waits) as waits:
            wait = waits.get(call.id)
        if wait is None or wait.kind != "approval":
            return signal
        return ApprovalRequired(
            self.session_id,
            signal.wait_ids,
            tool_call_id=call.id,
            name=call.name,
            arguments=copy_json(wait.arguments),
        )

    def _waiting(self, name: str, given: Any) -> str:
        """The first pending call that is equal to this one, each once."""
        digest = digest_of(name, given)
        for call in self._pending:
            call_id = str(call["tool_call_id"])
            equal = call.get("name") == name and digest_of(name, call.get("arguments")) == digest
            if equal and call_id not in self._taken:
                self._taken.add(call_id)
                return call_id
        return ""

    def _own_id(self, name: str, given: Any) -> str:
        """The same in each invocation of the turn, so that the record says what became of it."""
        digest = digest_of(name, given)
        self._equal[digest] += 1
        key = f"{self.turn_id} {digest} {self._equal[digest]}"
        return f"call_{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    # --- for what runs the handler ---

    def as_it_would_run(self, name: str, arguments: Any) -> Any:
        """The arguments of a call with the tool's defaults, as JSON; as they are where no such tool is registered."""
        return self._calls.bound(name, encode_json(to_json(arguments)).decode())

    def keep_messages(self) -> None:
        """Before a compaction, after which they could not be told any more."""
        self._kept = self.messages

    def owed_results(self) -> list[ToolResult]:
        """Of calls that were decided on and will not run: the handler goes on, and the model is to know."""
        if self.attempt == 1:
            return []
        with self._turn.journal.viewing(Waits) as waits:
            calls = [call for call in waits.open_calls(self.turn_id) if not call.called_by]
        return [result for call in calls if (result := self._owed(call)) is not None]

    def _owed(self, call: OpenCall) -> ToolResult | None:
        replay = self._turn.replay
        decision = replay.decision(self._calls.known(call.id), call.id)
        if decision is not None and decision.type == "TOOL_APPROVAL_DENIED" and not call.started:
            return ToolResult(tool_call_id=call.id, result=denial(decision), is_error=True)
        if decision is not None and call.name not in self.tools:
            return ToolResult(tool_call_id=call.id, result="The reviewer approved this.")
        resolved = replay.resolutions.get(call.id)
        if resolved is not None and resolved.payload.get("action") == "result":
            return ToolResult(tool_call_id=call.id, result=resolved.payload.get("result"))
        if resolved is not None and resolved.payload.get("action") == "skip":
            return ToolResult(tool_call_id=call.id, result=SKIPPED, is_error=True)
        return None


def _reason(turn: Turn) -> dict[str, Any]:
    """Why the handler runs; what made it run again without being a reason of its own is told by `attempt`."""
    found = [reason for reason in [*turn.replay.reasons, turn.reason] if reason.get("kind") in GIVEN]
    return copy_json(found[-1])  # type: ignore[no-any-return]
