"""Bugs, each a patch of the production code, that the simulation must find."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec

from segue.agents.call import Call
from segue.errors import ReplayDivergence
from segue.session import decisions
from segue.session.replay import Replay
from segue.session.tool_calls import Ready, ToolCalls
from segue.session.turn import Frame, Turn
from segue.stores import memory

Plant = Callable[[], contextlib.AbstractContextManager[Any]]


def _patched(owner: Any, name: str, wrong: Any) -> Plant:
    return lambda: mock.patch.object(owner, name, wrong)


def _models_are_asked_again(self: Replay, caller: str, kind: str, name: str, arguments: Any) -> Any:
    return None if kind == "model" else _take(self, caller, kind, name, arguments)


def _started_is_forgotten(self: ToolCalls, owner: str, call: Ready, known: Any) -> Any:
    return msgspec.structs.replace(call, attempt=known.attempt + 1)


def _any_grant_will_do(self: ToolCalls, call: Ready, grant: Any) -> Any:
    return call


def _denied_is_granted(self: ToolCalls, owner: str, call: Ready, known: Any) -> Any:
    return call if call.id in self._turn.replay.decisions else _gated(self, owner, call, known)


def _a_grant_opens_its_siblings(self: ToolCalls, owner: str, call: Ready, known: Any) -> Any:
    granted = {decision.type for decision in self._turn.replay.decisions.values()}
    return call if "TOOL_APPROVAL_GRANTED" in granted else _gated(self, owner, call, known)


def _starts_are_not_written(self: ToolCalls, caller: str, states: Any) -> Any:
    return [row for row in _first_rows(self, caller, states) if row.TYPE != "TOOL_STARTED"]


def _results_are_lost(self: ToolCalls, caller: str, call: Ready) -> Any:
    frame = Frame(node_id=call.id, caller=self._turn.frame(self._caller), is_tool=True)
    self._turn.push(frame)
    return self._answer(call, frame)


def _a_swallowed_wait_is_a_result(self: Turn, node_id: str) -> bool:
    return False


def _a_repeated_call_gets_the_first_answer(
    self: Replay, caller: str, kind: str, name: str, arguments: Any
) -> Any:
    return self.peek(caller, kind, name, arguments)


def _the_last_decision_counts(journal: Any, wait_id: str, kind: str, decision: Any) -> None:
    wait = next((wait for wait in decisions.open_waits(journal) if wait.id == wait_id), None)
    if wait is not None:
        _seen[wait_id] = wait
    journal.append(*decision(_seen[wait_id], []))


def _anything_goes(*args: Any) -> None:
    pass


def _calls_stay_open(self: Turn) -> list[str]:
    return self._unwound


def _swallowing_is_diverging(self: Turn, caller: str, kind: str, name: str, arguments: Any) -> Any:
    try:
        return self.replay.take(caller, kind, name, arguments)
    except ReplayDivergence as error:
        self._diverged = self._diverged or error
        raise


def _replies_are_said_again(self: Call) -> bool:
    return False


_take, _gated, _first_rows = Replay.take, ToolCalls._gated, ToolCalls._first_rows
_seen: dict[str, Any] = {}

PLANTED: dict[str, Plant] = {
    "a finished model call is asked again": _patched(Replay, "take", _models_are_asked_again),
    "a started tool is run again without asking": _patched(
        ToolCalls, "_started_before", _started_is_forgotten
    ),
    "a grant for something else, or too old, is taken": _patched(ToolCalls, "_granted", _any_grant_will_do),
    "a denied call runs": _patched(ToolCalls, "_gated", _denied_is_granted),
    "a grant opens other calls too": _patched(ToolCalls, "_gated", _a_grant_opens_its_siblings),
    "a tool starts before that is recorded": _patched(ToolCalls, "_first_rows", _starts_are_not_written),
    "a tool's result is not recorded": _patched(ToolCalls, "_one", _results_are_lost),
    "an answer is given to every equal call": _patched(
        Replay, "take", _a_repeated_call_gets_the_first_answer
    ),
    "a second decision is taken": _patched(decisions, "_decide", _the_last_decision_counts),
    "an ended call is ended and answered again": _patched(
        Call, "_is_over", property(_replies_are_said_again)
    ),
    "a wait that the code swallowed gives a result": _patched(
        Turn, "is_suspended", _a_swallowed_wait_is_a_result
    ),
    "one that lost its lease still writes": _patched(memory, "check_epoch", _anything_goes),
    "a turn that is over has calls that are not": _patched(Turn, "_left_open", _calls_stay_open),
    "code that swallows a signal is said to have changed": _patched(
        Turn, "recorded", _swallowing_is_diverging
    ),
}

SLOW = {"code that swallows a signal is said to have changed"}
"""Found after about a thousand histories; the others after a few."""
