"""Values too large for a row: kept whole as a blob, with their beginning and end in the row.

So a tool that returns 200 MB costs every later reader a few kilobytes, and nothing is lost. One place decides it, where
the journal stamps a fact; the blob is durable before the row is queued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from segue.events.codec import decode_json, encode_json
from segue.events.facts import CallEnded, Event, MessageDelta, ToolResult
from segue.stores.protocol import Store

LARGE = 256 * 1024
"""Bytes of an encoded payload from which its value is shortened."""
HEAD, TAIL = 24_000, 8_000
"""Characters of a shortened value that stay, from its beginning and its end."""
FOLDER = "files"
_CARRIERS = (ToolResult, CallEnded, MessageDelta)


def is_large_text(event: Event) -> bool:
    """Whether it carries a text that need not be encoded to see that it is too large."""
    if not isinstance(event, _CARRIERS):
        return False
    value = event.delta.get("text") if isinstance(event, MessageDelta) else event.result
    return type(value) is str and len(value) >= LARGE


def shortened(event: Event, keep: Callable[[bytes], str]) -> Event:
    """The fact with its value shortened and `whole` naming the blob that `keep` made of it; the same fact when it is
    none that carries a large value. Raises what `keep` raises."""
    if isinstance(event, (ToolResult, CallEnded)) and event.result is not msgspec.UNSET:
        text, digest = _kept(event.result, keep)
        return msgspec.structs.replace(event, result=text, whole=digest)
    if isinstance(event, MessageDelta) and isinstance(event.delta.get("text"), str):
        text, digest = _kept(event.delta["text"], keep)
        return msgspec.structs.replace(event, delta={**event.delta, "text": text}, whole=digest)
    return event


def whole_value(store: Store, session_id: str, payload: dict[str, Any]) -> Any:
    """The value of a TOOL_RESULT, CALL_ENDED or MESSAGE_DELTA as it was, whether or not its row has it shortened.

    Raises `BlobNotFound`, `StorageError`.
    """
    digest = payload.get("whole")
    if digest:
        return decode_json(store.get_blob(session_id, FOLDER, digest))
    return payload["delta"].get("text") if "delta" in payload else payload.get("result")


def _kept(value: Any, keep: Callable[[bytes], str]) -> tuple[str, str]:
    encoded = encode_json(value)
    digest = keep(encoded)
    text = value if isinstance(value, str) else encoded.decode()
    left_out = len(text) - HEAD - TAIL
    if left_out <= 0:  # few characters of many bytes
        return text, digest
    kept = f"whole, {len(encoded):,} bytes of JSON, as {FOLDER}/{digest}"
    mark = f"\n\n[... {left_out:,} characters left out; kept {kept} ...]\n\n"
    return text[:HEAD] + mark + text[-TAIL:], digest
