"""What a model call is sent: rendered from the call graph and the conversation, the same on every entry point.

In order: one system message (the function's docstring, its arguments, what it sees of its callers), the conversation
so far (root calls only, by default), what was done inside this call before, and the new request. Each part costs in
proportion to what is rendered, and the same state renders to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from segue.events.codec import encode_json
from segue.fold.conversation import Conversation
from segue.fold.graph import CallGraph, Node
from segue.journal import Journal
from segue.session.turn import Frame

Message = dict[str, Any]


class Prompt(msgspec.Struct, frozen=True):
    """The parts apart, since the record keeps them apart: `history` only grows from call to call."""

    system: str
    history: list[Message]
    request: list[Message]

    @property
    def messages(self) -> list[Message]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.history, *self.request]


def render(journal: Journal, frame: Frame | None, request: list[Message]) -> Prompt:
    """The prompt of a model call made inside `frame`, or of a bare one when that is None."""
    if frame is None:
        return Prompt(system="", history=_messages(journal, None), request=request)
    with journal.viewing(CallGraph) as graph:
        history = [*_conversation(journal, frame), *_inside(graph, frame)]
        return Prompt(system=_system(graph, frame), history=history, request=request)


def _messages(journal: Journal, end: int | None) -> list[Message]:
    with journal.viewing(Conversation) as conversation:
        return conversation.messages()[:end]


def _system(graph: CallGraph, frame: Frame) -> str:
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


def _outside(graph: CallGraph, frame: Frame) -> Iterator[str]:
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


def _inside(graph: CallGraph, frame: Frame) -> Iterator[Message]:
    """What was done in this call before: its model calls as they were, its function calls as far as they expose."""
    if frame.subcalls == 0:
        return
    nodes = graph.children(frame.node_id)
    for node in nodes if frame.subcalls is None else nodes[-frame.subcalls :]:
        if node.kind == "model":
            yield from _exchange(node)
        else:
            yield from _exposed(graph, node)


def _exposed(graph: CallGraph, node: Node) -> Iterator[Message]:
    """What a call shows to others: nothing, its input and output, its model calls, or both with all further in."""
    if node.expose == "hidden" or node.status not in ("completed", "failed") or node.kind == "model":
        return
    if node.expose in ("llm", "full"):
        for child in graph.children(node.id):
            if child.kind == "model":
                yield from _exchange(child)
            elif node.expose == "full":
                yield from _exposed(graph, child)
    if node.expose != "llm":
        yield {"role": "user", "content": _outcome(node)}


def _exchange(node: Node) -> Iterator[Message]:
    if node.status == "completed":
        yield {"role": "user", "content": node.arguments["content"]}
        yield {"role": "assistant", "content": text(node.result)}


def _outcome(node: Node) -> str:
    call = f"{_title(node.name)}({', '.join(f'{key}={text(value)}' for key, value in (node.arguments or {}).items())})"
    if node.status == "failed":
        return f"{call} failed: {(node.error or {}).get('message', '')}"
    return f"{call} returned:\n{text(node.result)}"


def _title(name: str) -> str:
    return name.rpartition(":")[2]


def _content_text(message: Message) -> str:
    content = message["content"]
    return content if isinstance(content, str) else text(content)


def text(value: Any) -> str:
    """A value as a prompt shows it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()
