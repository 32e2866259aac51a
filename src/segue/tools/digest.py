"""What a grant is bound to: one digest of a tool's name and arguments."""

from __future__ import annotations

import hashlib
from typing import Any

from segue.events.codec import encode_json


def digest_of(name: str, arguments: Any) -> str:
    """SHA-256, hexadecimal, of the JSON of name and arguments (a JSON value), keys sorted at every depth."""
    return hashlib.sha256(encode_json([name, in_order(arguments)])).hexdigest()


def in_order(value: Any) -> Any:
    """A JSON value with the keys of its objects sorted."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value
