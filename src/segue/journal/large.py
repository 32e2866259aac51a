"""Values too large for a row: kept whole as a blob, with their beginning and end in the row.

So a tool that returns 200 MB costs every later reader a few kilobytes, and nothing is lost. One place decides it, where
the journal stamps a fact; the blob is durable before the row is queued.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from segue.events.codec import decode_json, encode_json
from segue.events.facts import CallEnded, Event, MessageDelta, ToolResult
from segue.stores.protocol import Store

LARGE = 256 * 1024
"""Bytes of a value as JSON from which it is shortened."""
_MOST = 6
"""Bytes that one character of a text becomes at most, as JSON."""
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
        return read_whole(store, session_id, digest)
    return payload["delta"].get("text") if "delta" in payload else payload.get("result")


def read_whole(store: Store, session_id: str, digest: str) -> Any:
    """The value that a row names in `whole`. Raises `BlobNotFound`, `StorageError`."""
    return decode_json(store.get_blob(session_id, FOLDER, digest))


def shown(value: Any) -> Any:
    """A JSON value as its row has it, and so as a model sees it, now and when the turn runs again."""
    if type(value) in (int, float, bool, type(None)) or (
        type(value) is str and len(value) * _MOST + 2 < LARGE
    ):
        return value
    return _kept(value, lambda encoded: hashlib.sha256(encoded).hexdigest())[0]


def _kept(value: Any, keep: Callable[[bytes], str]) -> tuple[Any, str]:
    """The value shortened, and what `keep` gave for it as JSON; the value itself and nothing when it is not large."""
    encoded = encode_json(value)
    if len(encoded) < LARGE:
        return value, ""
    digest = keep(encoded)
    text = value if isinstance(value, str) else encoded.decode()
    left_out = len(text) - HEAD - TAIL
    kept = f"whole, {len(encoded):,} bytes of JSON, as {FOLDER}/{digest}"
    mark = f"\n\n[... {left_out:,} characters left out; kept {kept} ...]\n\n"
    return text[:HEAD] + mark + text[-TAIL:], digest
