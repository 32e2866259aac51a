"""The call graph of a session: which call was made by which, what came before it, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import Payload, text_or

TERMINAL = frozenset({"completed", "failed", "cancelled"})
"""The first of these wins."""
ENDINGS = TERMINAL | {"interrupted", "suspended"}


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One call. Replaced, never changed: a node that was handed out stays as it was.

    Its values (arguments, result, error, usage) are shared with the envelopes: never change them.
    """

    id: str
    kind: str
    """function, model, tool, question or step."""
    name: str
    called_by: str = ""
    predecessor: str = ""
    arguments: Any = None
    doc: str = ""
    expose: str = ""
    context: str = ""
    attempt: int = 1
    instead_of: str = ""
    """The node of an earlier attempt, ended in failure, in whose place this one is."""
    status: str = "running"
    """running, completed, failed, cancelled, interrupted or suspended."""
    result: Any = None
    whole: str = ""
    """Digest of the whole result, when `result` has only its beginning and end."""
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    turn_id: str = ""
    seq: int = 0
    """Of the row that first started it."""
    ended_seq: int = 0
    """Of the row that ended it as it is now; 0 while it has no end."""
    started_at: str = ""
    ended_at: str = ""


class GraphChanges(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    nodes: list[Node]
    """Those that started or changed, in the order they first did."""
    tools: dict[str, str] = {}
    open_tools: list[str] = []
    turn_id: str = ""


class CallGraph:
    """Incremental: `apply` rows in order. Every answer costs in proportion to its own size.

    Rows that are no calls, or malformed, change nothing.
    """

    CHANGES = GraphChanges

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._running: set[str] = set()
        self._tools: dict[str, str] = {}
        """Node of the nearest tool call by call id: a result can only belong to that one."""
        self._open_tools: set[str] = set()
        """Ids of tool calls without a result, as long as no new user message left them behind."""
        self._turn_id = ""
        self._unsaved: dict[str, None] = {}
        self._unsaved_tools: dict[str, str] = {}

    def apply(self, envelope: Envelope) -> None:
        handler = _HANDLERS.get(envelope.type)
        if handler is not None and type(envelope.payload) is dict:
            handler(self, envelope, envelope.payload)

    # --- answers ---

    def __len__(self) -> int:
        return len(self.nodes)

    def get(self, node_id: str) -> Node | None:
        return self.nodes.get(node_id)

    def tool_call(self, call_id: str) -> Node | None:
        """The nearest tool call of that id: the only one that a result can belong to."""
        return self.nodes.get(self._tools.get(call_id, ""))

    def children(self, node_id: str) -> list[Node]:
        """Calls made by that call, in the order they started; of "" the root calls."""
        return [self.nodes[child] for child in self._children.get(node_id, ())]

    def roots(self) -> list[Node]:
        return self.children("")

    def last_child(self, node_id: str) -> Node | None:
        children = self._children.get(node_id)
        return self.nodes[children[-1]] if children else None

    def callers(self, node_id: str) -> list[Node]:
        """The calls around that one, the nearest first."""
        found: dict[str, Node] = {}
        node = self.nodes.get(node_id)
        while node is not None and node.called_by not in found:
            node = self.nodes.get(node.called_by)
            if node is not None:
                found[node.id] = node
        return list(found.values())

    def running(self) -> list[Node]:
        """In the order they started."""
        return sorted((self.nodes[node_id] for node_id in self._running), key=lambda node: node.seq)

    # --- saving ---

    def changes(self, *, whole: bool = False) -> GraphChanges:
        """What changed since this was last called, or the graph was restored; `whole`: since the beginning."""
        changes = GraphChanges(
            nodes=[self.nodes[node_id] for node_id in (self.nodes if whole else self._unsaved)],
            tools=dict(self._tools) if whole else self._unsaved_tools,
            open_tools=sorted(self._open_tools),
            turn_id=self._turn_id,
        )
        self._unsaved, self._unsaved_tools = {}, {}
        return changes

    @classmethod
    def restored(cls, changes: Sequence[GraphChanges]) -> CallGraph:
        """The graph that gave these changes, all of them from its beginning on, at least one."""
        graph = cls()
        for change in changes:
            graph.nodes.update((node.id, node) for node in change.nodes)
            graph._tools.update(change.tools)
        for node in graph.nodes.values():
            graph._children.setdefault(node.called_by, []).append(node.id)
            if node.status == "running":
                graph._running.add(node.id)
        graph._open_tools, graph._turn_id = set(changes[-1].open_tools), changes[-1].turn_id
        return graph

    # --- functions, models, steps ---

    def _invocation_started(self, envelope: Envelope, payload: Payload) -> None:
        self._turn_id = text_or(payload.get("turn_id"))
        reason = payload.get("reason")
        if type(reason) is dict and reason.get("kind") in ("user_message", "direct_call"):
            self._open_tools.clear()

    def _call_started(self, envelope: Envelope, payload: Payload) -> None:
        node_id = text_or(payload.get("node_id"))
        known = self.nodes.get(node_id)
        if known is None and node_id:
            self._add(_started(node_id, envelope, payload, self._turn_id))
        elif known is not None and known.status not in TERMINAL:
            self._put(_restarted(known, payload))

    def _call_ended(self, envelope: Envelope, payload: Payload) -> None:
        status = text_or(payload.get("status"))
        if status in ENDINGS:
            self._end(text_or(payload.get("node_id")), envelope, status, payload)

    # --- questions ---

    def _question_asked(self, envelope: Envelope, payload: Payload) -> None:
        question_id = text_or(payload.get("question_id"))
        if not question_id or question_id in self.nodes:
            return
        keys = ("question", "options", "schema", "timeout")
        arguments = {key: payload[key] for key in keys if key in payload}
        name = text_or(payload.get("question"))
        self._add(self._waiting(envelope, payload, question_id, "question", name, arguments))

    def _question_answered(self, envelope: Envelope, payload: Payload) -> None:
        node = self.nodes.get(text_or(payload.get("question_id")))
        if node is not None and node.kind == "question":
            self._end(node.id, envelope, "completed", {"result": payload.get("answer")})

    # --- tools ---

    def _tool_call(self, envelope: Envelope, payload: Payload) -> None:
        """A call said again while it is open is the same one; any other use of an id is a call of its own, whose
        node is named by the id and, from the second on, its seq."""
        call_id = text_or(payload.get("tool_call_id"))
        if not call_id or call_id in self._open_tools:
            return
        node_id = call_id if call_id not in self.nodes else f"{call_id}@{envelope.seq}"
        name, arguments = text_or(payload.get("name")), payload.get("arguments")
        self._add(self._waiting(envelope, payload, node_id, "tool", name, arguments))
        self._tools[call_id] = self._unsaved_tools[call_id] = node_id
        self._open_tools.add(call_id)

    def _tool_started(self, envelope: Envelope, payload: Payload) -> None:
        node = self.nodes.get(self._tools.get(text_or(payload.get("tool_call_id")), ""))
        if node is not None and node.status not in TERMINAL:
            attempt = _attempt(payload, node.attempt)
            self._put(
                msgspec.structs.replace(node, status="running", attempt=attempt, ended_seq=0, ended_at="")
            )

    def _tool_result(self, envelope: Envelope, payload: Payload) -> None:
        call_id = text_or(payload.get("tool_call_id"))
        if call_id in self._tools:
            self._open_tools.discard(call_id)
            status = "failed" if payload.get("is_error") is True else "completed"
            self._end(self._tools[call_id], envelope, status, payload)

    # --- keeping ---

    def _waiting(
        self, envelope: Envelope, payload: Payload, node_id: str, kind: str, name: str, arguments: Any
    ) -> Node:
        called_by = text_or(payload.get("called_by"))
        before = self.last_child(called_by)
        return Node(
            id=node_id,
            kind=kind,
            name=name,
            called_by=called_by,
            predecessor=before.id if before else "",
            arguments=arguments,
            status="suspended",
            turn_id=self._turn_id,
            seq=envelope.seq,
            started_at=envelope.created_at,
        )

    def _add(self, node: Node) -> None:
        self._children.setdefault(node.called_by, []).append(node.id)
        self._put(node)

    def _put(self, node: Node) -> None:
        self.nodes[node.id] = node
        self._unsaved[node.id] = None
        if node.status == "running":
            self._running.add(node.id)
        else:
            self._running.discard(node.id)

    def _end(self, node_id: str, envelope: Envelope, status: str, payload: Payload) -> None:
        node = self.nodes.get(node_id)
        if node is None or node.status in TERMINAL:
            return
        ended = msgspec.structs.replace(
            node,
            status=status,
            result=payload.get("result"),
            whole=text_or(payload.get("whole")),
            error=_dict_or_none(payload.get("error")),
            usage=_dict_or_none(payload.get("usage")),
            ended_seq=envelope.seq,
            ended_at=envelope.created_at,
        )
        self._put(ended)


_HANDLERS = {
    "INVOCATION_STARTED": CallGraph._invocation_started,
    "CALL_STARTED": CallGraph._call_started,
    "CALL_ENDED": CallGraph._call_ended,
    "QUESTION_ASKED": CallGraph._question_asked,
    "QUESTION_ANSWERED": CallGraph._question_answered,
    "TOOL_CALL": CallGraph._tool_call,
    "TOOL_APPROVAL_REQUIRED": CallGraph._tool_call,
    "TOOL_STARTED": CallGraph._tool_started,
    "TOOL_RESULT": CallGraph._tool_result,
}


def _started(node_id: str, envelope: Envelope, payload: Payload, turn_id: str) -> Node:
    return Node(
        id=node_id,
        kind=text_or(payload.get("kind")),
        name=text_or(payload.get("name")),
        called_by=text_or(payload.get("called_by")),
        predecessor=text_or(payload.get("predecessor")),
        arguments=payload.get("arguments"),
        doc=text_or(payload.get("doc")),
        expose=text_or(payload.get("expose")),
        context=text_or(payload.get("context")),
        attempt=_attempt(payload, 1),
        instead_of=text_or(payload.get("instead_of")),
        turn_id=text_or(payload.get("turn_id")) or turn_id,
        seq=envelope.seq,
        started_at=envelope.created_at,
    )


def _restarted(node: Node, payload: Payload) -> Node:
    """Running again: what it is and where it stands stays, an unfinished end is forgotten."""
    return msgspec.structs.replace(
        node,
        status="running",
        attempt=_attempt(payload, node.attempt),
        context=text_or(payload.get("context")) or node.context,
        result=None,
        whole="",
        error=None,
        ended_seq=0,
        ended_at="",
    )


def _attempt(payload: Payload, default: int) -> int:
    value = payload.get("attempt")
    return value if type(value) is int else default


def _dict_or_none(value: Any) -> dict[str, Any] | None:
    return value if type(value) is dict else None
