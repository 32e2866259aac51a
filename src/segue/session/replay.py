"""What a turn recorded before it stopped, handed back call by call to the program that runs again.

A call is the recorded one when caller, kind, name and arguments are equal, the k-th equal one standing for the k-th.
Recorded calls of one caller that never overlapped must come in their order; those that did (threads, gathered tasks)
come in any. Arguments are compared as JSON; runtime, docstring, rendered context and deployment are not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from segue.errors import ReplayDivergence
from segue.events.envelope import Envelope
from segue.fold.graph import TERMINAL, CallGraph, Node
from segue.fold.path import active
from segue.tools.digest import digest_of

ENDLESS = 1 << 62


class Decision(msgspec.Struct, frozen=True):
    """What a person said to a wait."""

    type: str
    payload: dict[str, Any]
    seq: int


class _Recorded(msgspec.Struct, frozen=True):
    node: Node
    key: str


class _Group(msgspec.Struct):
    """Calls of one caller that overlapped, directly or through others, or a single one."""

    left: list[_Recorded]
    """Those the program has not made again yet, in the order they started."""
    alone: bool


class Replay:
    """Of one turn. Thread-safe. One without recorded calls answers nothing, at no cost."""

    def __init__(
        self,
        rows: Iterable[Envelope] = (),
        turn_id: str = "",
        *,
        handled: bool = False,
        settled: bool = False,
    ) -> None:
        self.settled = settled
        """Whether the turn is over: the program inside it is answered from the record all the way, failures too."""
        self._handled = handled
        """Whether a handler runs the turn: it is invoked again, for another reason perhaps, so its own calls may come
        in any order or not at all."""
        self.reasons: list[dict[str, Any]] = []
        """Of the earlier invocations."""
        self.decisions: dict[str, Decision] = {}
        """Tool call or question id -> the first decision since it was asked for last."""
        self.resolutions: dict[str, Decision] = {}
        """Tool call id -> the first CALL_RESOLVED since it was started last."""
        self._asked: dict[str, int] = {}
        """Tool call id -> seq at which an approval was asked for last."""
        self._started: dict[str, int] = {}
        """Tool call id -> seq at which it was started last."""
        self._nodes: dict[str, Node] = {}
        self._groups: dict[str, list[_Group]] = {}
        """By caller, in order; what is used up is dropped."""
        self._entered: set[str] = set()
        """Callers whose code runs again."""
        self.budget: dict[str, Any] | None = None
        """What the turn may spend, as its last attempt recorded it."""
        self._again: dict[str, str] = {}
        """Call -> the recorded one in whose place it is, of those that this attempt does over."""
        self._starts: dict[str, list[int]] = {}
        """By caller, the seqs at which its calls began."""
        self._resumed: list[int] = []
        """Seqs at which a later attempt began."""
        self.replied: dict[str, bool] = {}
        """First model call of an exchange outside any function -> whether its reply is in the conversation."""
        self.used = False
        """Whether the program made one of the recorded calls again."""
        self._lock = threading.Lock()
        self._read(active(rows), turn_id)

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def node(self, node_id: str) -> Node | None:
        """The recorded call of that id."""
        return self._nodes.get(node_id)

    def asked(self, call: Node, call_id: str) -> bool:
        """Whether an approval was asked for this use of the id."""
        return self._asked.get(call_id, 0) >= call.seq

    def started(self, call: Node, call_id: str) -> bool:
        """Whether an earlier attempt started this use of the id."""
        return self._started.get(call_id, 0) >= call.seq

    def decision(self, call: Node | None, call_id: str) -> Decision | None:
        """What was said to this use of the id: a decision opens or closes no later one."""
        found = self.decisions.get(call_id)
        return found if found is not None and call is not None and found.seq > call.seq else None

    def reason(self) -> dict[str, Any]:
        """Why the turn runs again: the last decision on what it waited for; without one, it is recovered."""
        mine = [
            decision
            for wait, decision in self.decisions.items()
            if (wait in self._nodes or wait in self._asked) and not decision.payload.get("rule_id")
        ]
        last = max(mine, key=lambda decision: decision.seq, default=None)
        if last is None:
            return {"kind": "recovery"}
        if last.type == "QUESTION_ANSWERED":
            return {"kind": "question_answer", "question_id": last.payload["question_id"]}
        approved, approver = last.type == "TOOL_APPROVAL_GRANTED", last.payload.get("approver", "")
        said = {"approved": approved, **({"approver": approver} if approver else {})}
        return {"kind": "approval_decision", "tool_call_id": last.payload["tool_call_id"], "decision": said}

    def take(self, caller: str, kind: str, name: str, arguments: Any) -> Node | None:
        """The recorded call that the program makes now; None when it is a new one.

        Raises `ReplayDivergence` when the record has another one here.
        """
        if not self._nodes:
            return None
        key = key_of(kind, name, arguments)
        with self._lock:
            self._entered.add(caller)
            found = self._find(caller, key)
            if found is None:
                self._check_unfinished(caller, kind, name)
            return found

    def peek(self, caller: str, kind: str, name: str, arguments: Any) -> Node | None:
        """What `take` would give."""
        with self._lock:
            return self._find(caller, key_of(kind, name, arguments), remove=False) if self._nodes else None

    def do_again(self, node: Node, new_id: str) -> None:
        """`new_id` takes the place of a call that failed: inside it, what the other had finished is answered."""
        with self._lock:
            self._groups[new_id] = self._groups.pop(node.id, [])
            self._again[new_id] = node.id

    def line(self, node_id: str) -> list[str]:
        """The call and those in whose place it is, the first one first."""
        recorded = self._again.get(node_id)
        return self._line(node_id) if recorded is None else [*self._line(recorded), node_id]

    def went_on(self, node: Node) -> bool:
        """Whether the caller of an ended call made another one after it, before the program stopped; how the call
        ended is then part of what the program did."""
        if self.settled:
            return True
        later = next((seq for seq in self._starts.get(node.called_by, ()) if seq > node.ended_seq), 0)
        return bool(later) and not any(node.ended_seq < seq < later for seq in self._resumed)

    def unfinished(self) -> list[str]:
        """The recorded calls that had not ended."""
        return [node.id for node in self._nodes.values() if node.status not in TERMINAL]

    def leftovers(self) -> list[Node]:
        """Finished calls that the program did not make again, of callers that ran again."""
        with self._lock:
            return [
                child.node
                for caller in self._entered
                if caller or not self._handled
                for group in self._groups.get(caller, [])
                for child in group.left
                if child.node.status in TERMINAL
            ]

    # --- matching ---

    def _find(self, caller: str, key: str, *, remove: bool = True) -> Node | None:
        groups = self._groups.get(caller, [])
        while groups and not groups[0].left:
            del groups[0]
        for number, group in enumerate(groups):
            for position, child in enumerate(group.left):
                if child.key == key:
                    if remove:
                        del group.left[position]
                        self.used = True
                    return child.node
            if group.left and group.alone:
                if number == 0:
                    raise _divergence(group.left[0].node)
                return None
        return None

    def _check_unfinished(self, caller: str, kind: str, name: str) -> None:
        """A call that had ended made all its calls: a further one was not there before."""
        node = self._nodes.get(caller)
        if node is not None and node.status == "completed":
            raise ReplayDivergence(
                f"{node.name} had ended when the turn stopped, without calling {kind} {name}: the code has changed"
            )

    # --- reading ---

    def _read(self, rows: list[Envelope], turn_id: str) -> None:
        graph, attempt, exchange = CallGraph(), 0, ""
        for row in rows:
            graph.apply(row)
            payload = row.payload
            if type(payload) is not dict:
                continue
            match row.type:
                case "INVOCATION_STARTED" if payload.get("turn_id") == turn_id:
                    self.reasons.append(payload.get("reason", {}))
                    self.budget = payload.get("budget", self.budget)
                    now = payload.get("attempt", 1)
                    if attempt and now != attempt:
                        self._resumed.append(row.seq)
                    attempt, exchange = now, ""
                case "CALL_STARTED" if not payload.get("called_by") and not exchange:
                    exchange = str(payload.get("node_id"))
                    self.replied.setdefault(exchange, False)
                case "MESSAGE_END" if not payload.get("called_by"):
                    self.replied[exchange] = True
                case _ if row.type in _WAITING:
                    _WAITING[row.type](self, row, payload)
        self._keep(graph, turn_id)

    def _keep(self, graph: CallGraph, turn_id: str) -> None:
        mine = [node for node in graph.nodes.values() if node.turn_id == turn_id]
        self._nodes = {node.id: node for node in mine}
        replaced = {node.instead_of for node in mine}
        children: dict[str, list[Node]] = {}
        for node in mine:
            # tools are found by their id: the model's reply names it
            if node.kind != "tool" and node.id not in replaced:
                children.setdefault(node.called_by, []).append(node)
        for caller in {*children, *(node.id for node in mine if node.instead_of)}:
            inside = [node for earlier in self._line(caller) for node in children.get(earlier, [])]
            began = [(self._began(node), node) for node in inside]
            self._groups[caller] = _groups(began, in_order=bool(caller) or not self._handled)
            self._starts[caller] = [node.seq for node in inside]

    def _began(self, node: Node) -> int:
        """The seq at which the call began first: one in the place of another stands where that stood."""
        first = self._nodes.get(self._line(node.id)[0], node)
        return first.seq

    def _line(self, node_id: str) -> list[str]:
        """The call and those in whose place it is, the first one first."""
        line = [node_id]
        while (node := self._nodes.get(line[0])) is not None and node.instead_of:
            line.insert(0, node.instead_of)
        return line

    def _ask(self, row: Envelope, payload: dict[str, Any]) -> None:
        call_id = str(payload.get("tool_call_id"))
        self._asked[call_id] = row.seq
        self.decisions.pop(call_id, None)

    def _start(self, row: Envelope, payload: dict[str, Any]) -> None:
        call_id = str(payload.get("tool_call_id"))
        self._started[call_id] = row.seq
        self.resolutions.pop(call_id, None)

    def _decided(self, row: Envelope, payload: dict[str, Any]) -> None:
        wait = str(payload.get("tool_call_id") or payload.get("question_id"))
        self.decisions.setdefault(wait, Decision(row.type, payload, row.seq))

    def _resolved(self, row: Envelope, payload: dict[str, Any]) -> None:
        self.resolutions.setdefault(str(payload.get("call_id")), Decision(row.type, payload, row.seq))


_WAITING = {
    "TOOL_APPROVAL_REQUIRED": Replay._ask,
    "TOOL_APPROVAL_GRANTED": Replay._decided,
    "TOOL_APPROVAL_DENIED": Replay._decided,
    "QUESTION_ANSWERED": Replay._decided,
    "TOOL_STARTED": Replay._start,
    "CALL_RESOLVED": Replay._resolved,
}


def key_of(kind: str, name: str, arguments: Any) -> str:
    """Of a call under its caller. A model's name is left out: which model answers is no part of the program."""
    return f"{kind} {digest_of('' if kind == 'model' else name, arguments)}"


def _groups(nodes: list[tuple[int, Node]], *, in_order: bool) -> list[_Group]:
    groups: list[_Group] = []
    end = -1 if in_order else ENDLESS
    for began, node in sorted(nodes, key=lambda item: item[0]):
        recorded = _Recorded(node, key_of(node.kind, node.name, node.arguments))
        if began > end or not groups:
            groups.append(_Group([recorded], alone=in_order))
        else:
            groups[-1].left.append(recorded)
            groups[-1].alone = False
        end = max(end, node.ended_seq or ENDLESS)
    return groups


def _divergence(recorded: Node) -> ReplayDivergence:
    return ReplayDivergence(
        f"the record has {recorded.kind} {recorded.name} here (node {recorded.id}), the program does something else:"
        " run the code as it was, or start a new turn",
        node_id=recorded.id,
    )
