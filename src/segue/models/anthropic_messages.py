"""OpenAI-shaped messages, tools and schemas as the Anthropic Messages API wants them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Block = dict[str, Any]


def split_system(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The system text, and the other messages: only `user` and `assistant`, in turn, beginning with
    `user`."""
    system = [_text(message["content"]) for message in messages if message["role"] == "system"]
    merged: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = list(_blocks(message))
        if merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        elif blocks:
            merged.append({"role": role, "content": blocks})
    if merged and merged[0]["role"] == "assistant":
        merged.insert(0, {"role": "user", "content": [{"type": "text", "text": "(continued)"}]})
    return "\n\n".join(system), merged


def tool_of(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], "description": function.get("description", ""), "input_schema": schema}


def _blocks(message: dict[str, Any]) -> Iterator[Block]:
    if message["role"] == "tool":
        text = _text(message.get("content"))
        yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}
        return
    yield from _parts(message.get("content"))
    for call in message.get("tool_calls") or []:
        function = call["function"]
        yield {
            "type": "tool_use",
            "id": call["id"],
            "name": function["name"],
            "input": json.loads(function["arguments"] or "{}"),
        }


def _parts(content: Any) -> Iterator[Block]:
    """Blank texts are left out: the API refuses them."""
    parts: list[Block] = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    for part in parts:
        if part.get("type") == "image_url":
            yield {"type": "image", "source": _image(part["image_url"]["url"])}
        elif part.get("type") != "text":
            yield part
        elif part["text"].strip():
            yield {"type": "text", "text": part["text"]}


def _image(url: str) -> Block:
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    return {"type": "url", "url": url}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""
