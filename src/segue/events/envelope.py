"""The envelope: a fact with identity and position. Exactly these seven fields on disk and on the wire."""

from __future__ import annotations

from typing import Any

import msgspec


class Envelope(msgspec.Struct, frozen=True, gc=False):
    id: str
    """Unique over all sessions: `evt_` and 16 characters."""
    session_id: str
    deployment_id: str
    """Names the code that wrote it."""
    seq: int
    """Position in the session: 1, 2, 3 and so on without a gap."""
    type: str
    """One of `segue.events.EVENT_TYPES`; readers tolerate others."""
    payload: dict[str, Any]
    """The fact's own fields, JSON values only. Never mutate it: envelopes are shared between views."""
    created_at: str
    """RFC 3339, UTC."""
