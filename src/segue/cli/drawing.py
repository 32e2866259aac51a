"""A call graph as a tree in the terminal."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.text import Text
from rich.tree import Tree

from segue.cli.visible import shortened, visible
from segue.events.codec import encode_json
from segue.events.json_values import to_json
from segue.fold.graph import CallGraph, Node

VALUE_LENGTH = 40
"""Characters shown of an argument, a name or a result."""
STYLES = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "interrupted": "yellow",
    "suspended": "cyan",
}


def tree(graph: CallGraph, session_id: str) -> Tree:
    """Callers above their calls, in the order they started. Nothing recurses: a graph may be as deep as it likes."""
    drawn = Tree(Text(f"session: {session_id}", style="bold"))
    waiting = [(drawn, node) for node in reversed(graph.roots())]
    while waiting:
        branch, node = waiting.pop()
        child = branch.add(line(node))
        waiting += [(child, inner) for inner in reversed(graph.children(node.id))]
    return drawn


def line(node: Node) -> Text:
    """`function report(title=...)  completed 1.2 s  -> result`, cut off where the terminal ends."""
    shown = Text(no_wrap=True, overflow="ellipsis").append_text(_call(node))
    shown.append(f"  {node.status}", style=STYLES.get(node.status, ""))
    shown.append(_duration(node))
    return shown.append(_ending(node))


def _call(node: Node) -> Text:
    shown = Text.assemble((node.kind, "dim"), " ", (shortened(_title(node), VALUE_LENGTH), "bold"))
    return shown.append(f"({shortened(_given(node), VALUE_LENGTH)})")


def _given(node: Node) -> str:
    if node.kind == "model" and isinstance(node.arguments, dict) and "continues" in node.arguments:
        return "the results"
    return _arguments(node.arguments)


def _title(node: Node) -> str:
    return node.name.rpartition(":")[2] if node.kind == "function" else node.name


def _arguments(arguments: Any) -> str:
    if isinstance(arguments, dict):
        return ", ".join(f"{visible(str(name))}={_value(value)}" for name, value in arguments.items())
    return "" if arguments is None else _value(arguments)


def _ending(node: Node) -> str:
    if node.error is not None:
        return f"  {shortened(str(node.error.get('message', '')), VALUE_LENGTH)}"
    return f"  -> {_value(node.result)}" if node.status == "completed" else ""


def _value(value: Any) -> str:
    return shortened(encode_json(to_json(value)).decode(), VALUE_LENGTH)


def _duration(node: Node) -> str:
    try:
        seconds = (
            datetime.fromisoformat(node.ended_at) - datetime.fromisoformat(node.started_at)
        ).total_seconds()
    except ValueError:  # not ended
        return ""
    return f" {seconds:.1f} s" if seconds >= 0.05 else ""
