"""The tool calls of one reply: what may run is started durably and runs together, each result is recorded when it is
there. Where the turn runs again, what the record has is answered from it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from segue.errors import InvalidArguments, StaleWriter, Suspended, ToolFailed
from segue.events.codec import decode_json, encode_json
from segue.events.facts import (
    CallEnded,
    Event,
    ToolApprovalGranted,
    ToolApprovalRequired,
    ToolResult,
    ToolStarted,
)
from segue.events.json_values import json_or_reason, to_json
from segue.fold.graph import TERMINAL, CallGraph, Node
from segue.fold.rules import Rules
from segue.ids import utc_now
from segue.journal import shown
from segue.models.protocol import ToolCallChunk
from segue.session.prompt import Message, text
from segue.session.recovery import SKIPPED
from segue.session.replay import Decision
from segue.session.rules import admitting
from segue.session.sending import Reply
from segue.session.tool_running import run_tool
from segue.session.turn import Frame, Turn
from segue.tools.digest import digest_of
from segue.tools.policy import Policy, load_policy
from segue.tools.tool import Tool


class Ready(msgspec.Struct, frozen=True):
    """A call that runs now."""

    id: str
    tool: Tool[..., Any]
    arguments: dict[str, Any]
    """As the function takes them."""
    attempt: int = 1
    note: str = ""
    """What the model is told besides the result."""
    rule_id: str = ""
    """Of the rule that grants it, when nobody else did."""


class Answer(msgspec.Struct, frozen=True):
    result: Any
    """A JSON value."""
    is_error: bool = False
    recorded: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A call that somebody has to decide on."""

    id: str
    asked: ToolApprovalRequired | None = None
    """To be written, when the record does not have it yet."""


class ToolCalls:
    """The tools of one `exec`, or of a handler. With `own_loop`, async ones run on the caller's event loop."""

    def __init__(
        self, turn: Turn, caller: str, tools: Mapping[str, Tool[..., Any]], runtime: Any, *, own_loop: bool
    ) -> None:
        self._turn, self._caller, self._tools = turn, caller, tools
        self._runtime, self._own_loop = runtime, own_loop
        self._policy = load_policy() if tools else Policy()

    async def run(self, reply: Reply) -> list[Message]:
        """The tool messages for the calls of a reply, in their order. What fails is told to the model, whatever it is.
        Raises as `answers`."""
        answers = await self.answers(reply.node_id, reply.calls)
        return [
            {"role": "tool", "tool_call_id": call.id, "content": text(shown(answers[call.id].result))}
            for call in reply.calls
        ]

    async def answers(self, owner: str, calls: Sequence[ToolCallChunk]) -> dict[str, Answer]:
        """What becomes of calls that are in the record, by their ids. `owner` is the model call that made them, empty
        for the conversation.

        A call that waits for somebody suspends the turn, once the others are done: raises `Suspended`.
        """
        states, given = await self._turn.to_its_end(self._made(owner, calls))
        self._suspend([state for state in states.values() if isinstance(state, Waiting)])
        return {call_id: state for call_id, state in states.items() if isinstance(state, Answer)} | given

    def bound(self, name: str, arguments: str) -> Any:
        """The arguments of such a call as JSON, as they would run; as they are where they do not fit."""
        try:
            return to_json(self._tools[name].bind(arguments))
        except (KeyError, InvalidArguments):
            return decode_json(arguments)

    def known(self, call_id: str) -> Node | None:
        """The turn's call of that id; ids that providers use again name the nearest one."""
        with self._turn.journal.viewing(CallGraph) as graph:
            node = graph.tool_call(call_id)
        return node if node is not None and node.turn_id == self._turn.turn_id else None

    # --- what becomes of a call ---

    def _state(self, owner: str, call: ToolCallChunk) -> Ready | Answer | Waiting:
        known = self.known(call.id)
        if known is not None and known.status in TERMINAL:
            result = self._turn.journal.whole(known.result, known.whole)
            return Answer(result, is_error=known.status == "failed", recorded=True)
        tool = self._tools.get(call.name)
        if tool is None:
            known_names = ", ".join(self._tools)
            return Answer(f"there is no tool {call.name!r}; the tools are: {known_names}", is_error=True)
        try:
            ready = Ready(call.id, tool, tool.bind(call.arguments))
        except InvalidArguments as error:
            return Answer(str(error), is_error=True)
        if known is not None and self._turn.replay.started(known, call.id):
            return self._started_before(owner, ready, known)
        decided = self._turn.replay.decision(known, call.id)
        gated = decided or self._policy.gates(tool.name) or tool.gated(ready.arguments)
        return self._gated(owner, ready, known) if gated else ready

    def _started_before(self, owner: str, call: Ready, known: Node) -> Ready | Answer | Waiting:
        """It may have had its effect: only one that stopped at a wait of its own, or that is declared idempotent, is
        entered again without asking. What runs again is what was granted."""
        resolution = self._turn.replay.resolutions.get(call.id)
        action = "" if resolution is None else resolution.payload.get("action")
        if resolution is not None and action == "result":
            return Answer(resolution.payload.get("result"))
        if action == "skip":
            return Answer(SKIPPED, is_error=True)
        if action != "retry" and not call.tool.idempotent and known.status != "suspended":
            return Waiting(call.id)
        grant = self._turn.replay.decision(known, call.id)
        granted = call if grant is None else self._as_granted(call, grant)
        if granted is None:
            return Waiting(call.id, self._question(owner, call))
        return msgspec.structs.replace(granted, attempt=known.attempt + 1)

    def _gated(self, owner: str, call: Ready, known: Node | None) -> Ready | Answer | Waiting:
        decision = self._turn.replay.decision(known, call.id)
        if decision is None:
            asked = known is not None and self._turn.replay.asked(known, call.id)
            return self._by_rule(call) or Waiting(call.id, None if asked else self._question(owner, call))
        if decision.type == "TOOL_APPROVAL_DENIED":
            return Answer(denial(decision), is_error=True)
        granted = self._granted(call, decision) or self._by_rule(call)
        return granted or Waiting(call.id, self._question(owner, call))

    def _granted(self, call: Ready, grant: Decision) -> Ready | None:
        """The call as it was granted; None when the grant is for something else, or too old."""
        end = grant.payload.get("expires_at")
        return None if end and end <= utc_now() else self._as_granted(call, grant)

    def _as_granted(self, call: Ready, grant: Decision) -> Ready | None:
        granted = grant.payload
        if "arguments" not in granted:
            return call if granted.get("digest") == _digest(call) else None
        if granted.get("digest") != digest_of(call.tool.name, granted["arguments"]):
            return None
        changed = encode_json(granted["arguments"]).decode()
        note = f"The reviewer changed the arguments to {changed} before this ran."
        try:
            return msgspec.structs.replace(call, arguments=call.tool.bind(changed), note=note)
        except InvalidArguments:
            return None

    def _by_rule(self, call: Ready) -> Ready | None:
        """The call, granted by a rule of the session; None when none admits it."""
        with self._turn.journal.viewing(Rules) as rules:
            rule = admitting(rules.active, call.tool, to_json(call.arguments))
        return None if rule is None else msgspec.structs.replace(call, rule_id=rule.id)

    def _question(self, caller: str, call: Ready) -> ToolApprovalRequired:
        return ToolApprovalRequired(
            tool_call_id=call.id,
            name=call.tool.name,
            arguments=to_json(call.arguments),
            digest=_digest(call),
            declaration=call.tool.declaration(),
            called_by=caller,
        )

    # --- rows ---

    def _first_rows(self, caller: str, states: Mapping[str, Ready | Answer | Waiting]) -> list[Event]:
        """Durable before anything runs: the answers to calls that do not, and the starts of those that do."""
        answers = [
            _result(caller, call_id, state)
            for call_id, state in states.items()
            if isinstance(state, Answer) and not state.recorded
        ]
        granted = [
            ToolApprovalGranted(tool_call_id=state.id, digest=_digest(state), rule_id=state.rule_id)
            for state in states.values()
            if isinstance(state, Ready) and state.rule_id
        ]
        started = [
            ToolStarted(
                tool_call_id=state.id,
                attempt=state.attempt,
                idempotency_key=self._key(state.id),
                idempotent=state.tool.idempotent,
                called_by=caller,
            )
            for state in states.values()
            if isinstance(state, Ready)
        ]
        return [*answers, *granted, *started]

    def _suspend(self, waiting: list[Waiting]) -> None:
        if not waiting:
            return
        asked = [wait.asked for wait in waiting if wait.asked is not None]
        if asked:
            self._turn.append(*asked)
        signals = [self._turn.wait_opened(wait.id, self._caller) for wait in waiting]
        raise signals[-1]

    # --- running ---

    async def _made(
        self, caller: str, calls: Sequence[ToolCallChunk]
    ) -> tuple[dict[str, Ready | Answer | Waiting], dict[str, Answer]]:
        """All at once: what became of the calls, and the answers of those that ran. A signal that one of them raises
        goes on when the others are done, and their results written."""
        states = {call.id: self._state(caller, call) for call in calls}
        if any(isinstance(state, Ready) for state in states.values()):
            self._turn.check(self._caller)
        await self._begin(caller, states)
        running = [state for state in states.values() if isinstance(state, Ready)]
        done = await asyncio.gather(*[self._one(caller, call) for call in running], return_exceptions=True)
        for outcome in done:
            if isinstance(outcome, BaseException):
                raise outcome
        given = zip(running, done, strict=True)
        return states, {call.id: answer for call, answer in given if isinstance(answer, Answer)}

    async def _begin(self, caller: str, states: dict[str, Ready | Answer | Waiting]) -> None:
        """Write the first rows. What a rule grants is written onto the very state in which the rule was there: one that
        is withdrawn meanwhile grants nothing more."""
        by_rule = [state for state in states.values() if isinstance(state, Ready) and state.rule_id]
        if by_rule:
            await self._turn.append_async()  # the turn is open from here on
        while by_rule:
            last = self._turn.journal.last_seq
            for call in by_rule:
                states[call.id] = self._by_rule(call) or Waiting(call.id, self._question(caller, call))
            with contextlib.suppress(StaleWriter):
                return await self._turn.append_onto(last, *self._first_rows(caller, states))
        if rows := self._first_rows(caller, states):
            await self._turn.append_async(*rows)

    async def _one(self, caller: str, call: Ready) -> Answer:
        frame = Frame(
            node_id=call.id,
            caller=self._turn.frame(self._caller),
            name=call.tool.name,
            arguments=to_json(call.arguments),
            is_tool=True,
        )
        self._turn.push(frame)
        try:
            answer = await self._answer(call, frame)
            if self._turn.is_suspended(call.id):
                self._turn.check(call.id)
        except Suspended:  # by a wait inside it: it is entered again when the turn goes on
            await self._turn.append_async(CallEnded(node_id=call.id, status="suspended"))
            raise
        finally:
            self._turn.pop(call.id)
        await self._turn.append_async(_result(caller, call.id, answer))
        return answer

    async def _answer(self, call: Ready, frame: Frame) -> Answer:
        injected = {"runtime": self._runtime, "idempotency_key": self._key(call.id)}
        arguments = call.arguments | {name: injected[name] for name in call.tool.injected}
        try:
            value = await run_tool(self._turn, call.tool, arguments, frame, own_loop=self._own_loop)
        except ToolFailed as error:
            return Answer(_noted(call, str(error)), is_error=True)
        return Answer(_noted(call, json_or_reason(value)))

    def _key(self, call_id: str) -> str:
        """The same for every attempt of a call, and for no other call."""
        return hashlib.sha256(f"{self._turn.session_id}\0{call_id}".encode()).hexdigest()[:32]


def denial(decision: Decision) -> str:
    """What the model is told of a denied call."""
    words = decision.payload.get("reason")
    return f"The reviewer denied this call; it did not run.{f' {words}' if words else ''}"


def _digest(call: Ready) -> str:
    return digest_of(call.tool.name, to_json(call.arguments))


def _noted(call: Ready, result: Any) -> Any:
    return f"{call.note}\n{text(result)}" if call.note else result


def _result(caller: str, call_id: str, answer: Answer) -> ToolResult:
    return ToolResult(tool_call_id=call_id, result=answer.result, is_error=answer.is_error, called_by=caller)
