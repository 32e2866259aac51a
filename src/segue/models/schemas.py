"""JSON schemas as providers want them."""

from __future__ import annotations

from typing import Any


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema with every object closed, for providers that enforce only such; None when that would change
    what it admits: properties that may be left out, or objects with free keys."""
    closed = _closed(schema)
    return closed if isinstance(closed, dict) else None


def _closed(part: Any) -> Any:
    """None marks a part that cannot be closed."""
    if isinstance(part, list):
        items = [_closed(item) for item in part]
        return (
            None
            if any(item is None and was is not None for item, was in zip(items, part, strict=True))
            else items
        )
    if not isinstance(part, dict):
        return part
    if part.get("type") == "object" and not _closable(part):
        return None
    made = {key: _closed(value) for key, value in part.items()}
    if any(made[key] is None and part[key] is not None for key in made):
        return None
    return made | {"additionalProperties": False} if part.get("type") == "object" else made


def _closable(part: dict[str, Any]) -> bool:
    names = part.get("properties", {}).keys()
    return (
        bool(names) and set(part.get("required", [])) == set(names) and not part.get("additionalProperties")
    )
