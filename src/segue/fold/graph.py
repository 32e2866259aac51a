"""The call graph of a session: which call was made by which, what came before it, and how it ended."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.events.envelope import Envelope

TERMINAL = frozenset({"completed", "failed", "cancelled"})


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Replaced, never changed: a node that was handed out stays as it was."""

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
    status: str = "running"
    """running, completed, failed, cancelled, interrupted or suspended."""
    result: Any = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    turn_id: str = ""
    seq: int = 0
    started_at: str = ""
    ended_at: str = ""


class CallGraph:
    """Incremental: `apply` rows in order. Every answer costs in proportion to its own size."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._running: dict[str, None] = {}
        self._open_tools: dict[str, list[str]] = {}
        self._turn_id = ""

    def apply(self, envelope: Envelope) -> None:
        """Rows that are no calls, or malformed, change nothing."""
        handler = _HANDLERS.get(envelope.type)
        if handler is not None:
            handler(self, envelope, envelope.payload)

    # --- answers --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def get(self, node_id: str) -> Node | None:
        return self.nodes.get(node_id)

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
        found: list[Node] = []
        node = self.nodes.get(node_id)
        while node is not None and node.called_by in self.nodes and len(found) < len(self.nodes):
            node = self.nodes[node.called_by]
            found.append(node)
        return found

    def running(self) -> list[Node]:
        return [self.nodes[node_id] for node_id in self._running]

    # --- rows -----------------------------------------------------------------------------------------------------

    def _invocation_started(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        self._turn_id = _text(payload, "turn_id")

    def _call_started(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        node_id = _text(payload, "node_id")
        known = self.nodes.get(node_id)
        if not node_id or (known is not None and known.status in TERMINAL):
            return
        self._start(_started(node_id, envelope, payload))

    def _call_ended(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        status = payload.get("status")
        if status in ENDINGS:
            self._end(_text(payload, "node_id"), envelope, str(status), payload)

    def _question_asked(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        question_id = _text(payload, "question_id")
        if not question_id or question_id in self.nodes:
            return
        called_by = _text(payload, "called_by")
        before = self.last_child(called_by)
        arguments = {
            key: payload[key] for key in ("question", "options", "schema", "timeout") if key in payload
        }
        node = Node(
            id=question_id,
            kind="question",
            name=_text(payload, "question"),
            called_by=called_by,
            predecessor=before.id if before else "",
            arguments=arguments,
            status="suspended",
            turn_id=self._turn_id,
            seq=envelope.seq,
            started_at=envelope.created_at,
        )
        self._start(node)

    def _question_answered(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        question_id = _text(payload, "question_id")
        self._end(question_id, envelope, "completed", {"result": payload.get("answer")})

    def _tool_call(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        """A tool call's id can come again: its node is named by the id and, from the second on, its seq."""
        call_id = _text(payload, "tool_call_id")
        if not call_id:
            return
        node_id = call_id if call_id not in self.nodes else f"{call_id}@{envelope.seq}"
        called_by = _text(payload, "called_by")
        before = self.last_child(called_by)
        self._open_tools.setdefault(call_id, []).append(node_id)
        node = Node(
            id=node_id,
            kind="tool",
            name=_text(payload, "name"),
            called_by=called_by,
            predecessor=before.id if before else "",
            arguments=payload.get("arguments"),
            status="suspended",
            turn_id=self._turn_id,
            seq=envelope.seq,
            started_at=envelope.created_at,
        )
        self._start(node)

    def _tool_started(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        waiting = self._open_tools.get(_text(payload, "tool_call_id"))
        if waiting:
            node = self.nodes[waiting[-1]]
            attempt = payload.get("attempt", 1)
            self._put(
                msgspec.structs.replace(
                    node, status="running", attempt=attempt if type(attempt) is int else 1
                )
            )

    def _tool_result(self, envelope: Envelope, payload: dict[str, Any]) -> None:
        waiting = self._open_tools.get(_text(payload, "tool_call_id"))
        if waiting:
            status = "failed" if payload.get("is_error") is True else "completed"
            self._end(waiting.pop(), envelope, status, payload)

    # --- keeping --------------------------------------------------------------------------------------------------

    def _start(self, node: Node) -> None:
        if node.id not in self.nodes:
            self._children.setdefault(node.called_by, []).append(node.id)
        self._put(node)

    def _put(self, node: Node) -> None:
        self.nodes[node.id] = node
        if node.status == "running":
            self._running[node.id] = None
        else:
            self._running.pop(node.id, None)

    def _end(self, node_id: str, envelope: Envelope, status: str, payload: dict[str, Any]) -> None:
        node = self.nodes.get(node_id)
        if node is None or node.status in TERMINAL:
            return
        error, usage = payload.get("error"), payload.get("usage")
        self._put(
            msgspec.structs.replace(
                node,
                status=status,
                result=payload.get("result"),
                error=error if isinstance(error, dict) else None,
                usage=usage if isinstance(usage, dict) else None,
                ended_at=envelope.created_at,
            )
        )


ENDINGS = TERMINAL | {"interrupted", "suspended"}

_HANDLERS = {
    "INVOCATION_STARTED": CallGraph._invocation_started,
    "CALL_STARTED": CallGraph._call_started,
    "CALL_ENDED": CallGraph._call_ended,
    "QUESTION_ASKED": CallGraph._question_asked,
    "QUESTION_ANSWERED": CallGraph._question_answered,
    "TOOL_CALL": CallGraph._tool_call,
    "TOOL_STARTED": CallGraph._tool_started,
    "TOOL_RESULT": CallGraph._tool_result,
}


def _started(node_id: str, envelope: Envelope, payload: dict[str, Any]) -> Node:
    attempt = payload.get("attempt", 1)
    return Node(
        id=node_id,
        kind=_text(payload, "kind"),
        name=_text(payload, "name"),
        called_by=_text(payload, "called_by"),
        predecessor=_text(payload, "predecessor"),
        arguments=payload.get("arguments"),
        doc=_text(payload, "doc"),
        expose=_text(payload, "expose"),
        context=_text(payload, "context"),
        attempt=attempt if type(attempt) is int else 1,
        turn_id=_text(payload, "turn_id"),
        seq=envelope.seq,
        started_at=envelope.created_at,
    )


def _text(payload: dict[str, Any], key: str) -> str:
    value = payload.get(key)
    return value if isinstance(value, str) else ""
