"""The rules by which calls are granted ahead: what somebody said "always" to, and did not withdraw."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.events.envelope import Envelope
from segue.fold.diagnostics import text_or


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    tool: str
    declaration: str
    """Digest of the tool as it was declared: the rule is for no other one."""
    arguments: Any = None
    """The only arguments that it admits, a JSON object; None: any."""
    by: str = ""
    set_at: str = ""
    seq: int = 0


class Rules:
    """Incremental, of the whole journal: rewinding a conversation takes no decision back."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}

    def apply(self, envelope: Envelope) -> None:
        if envelope.type != "APPROVAL_RULE_SET" or type(envelope.payload) is not dict:
            return
        payload = envelope.payload
        rule_id = text_or(payload.get("rule_id"))
        self._rules.pop(rule_id, None)
        predicate = payload.get("predicate")
        is_known = predicate is None or (type(predicate) is dict and predicate.keys() == {"arguments"})
        # of another session, or saying more than is understood here: it admits nothing
        if payload.get("withdrawn") or payload.get("session_id") != envelope.session_id or not is_known:
            return
        self._rules[rule_id] = Rule(
            id=rule_id,
            tool=text_or(payload.get("tool")),
            declaration=text_or(payload.get("declaration")),
            arguments=None if predicate is None else predicate["arguments"],
            by=text_or(payload.get("by")),
            set_at=envelope.created_at,
            seq=envelope.seq,
        )

    @property
    def active(self) -> list[Rule]:
        """In the order they were set."""
        return list(self._rules.values())
