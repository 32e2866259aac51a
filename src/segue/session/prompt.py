"""What a model call is sent: rendered from the call graph and the conversation, the same on every entry point.

In order: one system message (the function's docstring, its arguments, what it sees of its callers), the conversation
so far (root calls only, by default), what was done inside this call before, and the new request. Each part costs in
proportion to what is rendered, and the same state renders to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from segue.events.codec import encode_json
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph, Node
from segue.journal import Journal
from segue.session.turn import Frame

Message = dict[str, Any]


class Seen(Protocol):
    """What rendering asks of the call graph."""

    def get(self, node_id: str) -> Node | None: ...

    def children(self, node_id: str) -> list[Node]: ...


class Earlier:
    """The call graph as it was before a row, for a program that runs again: the same prompts as the first time."""

    def __init__(self, graph: CallGraph, before: int) -> None:
        self._graph, self._before = graph, before

    def get(self, node_id: str) -> Node | None:
        return self._graph.get(node_id)

    def children(self, node_id: str) -> list[Node]:
        return [self._as_it_was(node) for node in self._graph.children(node_id) if node.seq < self._before]

    def _as_it_was(self, node: Node) -> Node:
        return node if node.ended_seq < self._before else msgspec.structs.replace(node, status="running")


class Prompt(msgspec.Struct, frozen=True):
    """The parts apart, since the record keeps them apart: `history` only grows from call to call."""

    system: str
    history: list[Message]
    request: list[Message]

    @property
    def messages(self) -> list[Message]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.history, *self.request]


def render(
    journal: Journal, frame: Frame | None, request: list[Message], *, before: int | None = None
) -> Prompt:
    """The prompt of a model call made inside `frame`, or of a bare one when that is None; with `before`, as it was
    before the row of that seq."""
    if frame is None:
        return Prompt(system="", history=_messages(journal, None), request=request)
    with journal.viewing(CallGraph) as graph:
        seen = graph if before is None else Earlier(graph, before)
        history = [*_conversation(journal, frame), *_inside(seen, frame)]
        return Prompt(system=_system(seen, frame), history=history, request=request)


def _messages(journal: Journal, end: int | None) -> list[Message]:
    with journal.viewing(Conversation) as conversation:
        return conversation.messages()[:end]


def _system(graph: Seen, frame: Frame) -> str:
    parts = [frame.doc, _arguments(frame.arguments), *_outside(graph, frame)]
    return "\n\n".join(part for part in parts if part)


def _arguments(arguments: Any) -> str:
    if not arguments:
        return ""
    return "Arguments:\n" + "\n".join(f"{name}: {text(value)}" for name, value in arguments.items())


def _conversation(journal: Journal, frame: Frame) -> list[Message]:
    """The exchanges before this root call began. The level above a root call is the conversation."""
    if frame.callers is not None and frame.callers < frame.depth:
        return []
    root = frame
    while root.caller is not None:
        root = root.caller
    return _messages(journal, root.history)


def _outside(graph: Seen, frame: Frame) -> Iterator[str]:
    """The visible callers, the nearest last: what each was asked, and what it had done before calling on."""
    levels: list[tuple[Frame, str]] = []
    inner, caller = frame, frame.caller
    while caller is not None and (frame.callers is None or len(levels) < frame.callers):
        levels.append((caller, inner.node_id))
        inner, caller = caller, caller.caller
    for seen, child in reversed(levels):
        yield f"This is a part of {_title(seen.name)}. {_arguments(seen.arguments)}".rstrip()
        for node in graph.children(seen.node_id):
            if node.id == child:
                break
            yield from (_content_text(message) for message in _exposed(graph, node))


def _inside(graph: Seen, frame: Frame) -> Iterator[Message]:
    """What was done in this call before: its model calls as they were, its function calls as far as they expose."""
    if frame.subcalls == 0:
        return
    nodes = graph.children(frame.node_id)
    for node in nodes if frame.subcalls is None else nodes[-frame.subcalls :]:
        if node.kind == "model":
            yield from _exchange(graph, node)
        else:
            yield from _exposed(graph, node)


def _exposed(graph: Seen, node: Node) -> Iterator[Message]:
    """What a call shows to others: nothing, its input and output, its model calls, or both with all further in."""
    if node.expose == "hidden" or node.status not in ("completed", "failed") or node.kind == "model":
        return
    if node.expose in ("llm", "full"):
        for child in graph.children(node.id):
            if child.kind == "model":
                yield from _exchange(graph, child)
            elif node.expose == "full":
                yield from _exposed(graph, child)
    if node.expose != "llm":
        yield {"role": "user", "content": _outcome(node)}


def _exchange(graph: Seen, node: Node) -> Iterator[Message]:
    """What a model was asked and answered, after what its tools gave. A reply that called tools is no answer yet: the
    one that goes on from their results answers what the first was asked."""
    if node.status != "completed":
        return
    if not isinstance(node.result, str):
        for tool in graph.children(node.id):
            yield from _exposed(graph, tool)
        return
    asked = graph.get(node.arguments["continues"]) if "continues" in node.arguments else node
    if asked is not None:
        yield {"role": "user", "content": asked.arguments["content"]}
        yield {"role": "assistant", "content": node.result}


def _outcome(node: Node) -> str:
    given = node.arguments or {}
    given = given if isinstance(given, dict) else {"arguments": given}
    call = f"{_title(node.name)}({', '.join(f'{key}={text(value)}' for key, value in given.items())})"
    if node.status == "failed":
        return f"{call} failed: {(node.error or {}).get('message') or text(node.result)}"
    return f"{call} returned:\n{text(node.result)}"


def _title(name: str) -> str:
    return name.rpartition(":")[2]


def _content_text(message: Message) -> str:
    content = message["content"]
    return content if isinstance(content, str) else text(content)


def text(value: Any) -> str:
    """A value as a prompt shows it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()
