"""Decisions on open waits, from anywhere: the first one on a wait counts, whoever comes later is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from segue.errors import AlreadyDecided, NotWaiting, StaleWriter, UsageError
from segue.events.facts import (
    CallResolved,
    Event,
    QuestionAnswered,
    ToolApprovalDenied,
    ToolApprovalGranted,
)
from segue.events.json_values import to_json
from segue.fold.waits import Wait, Waits
from segue.journal import Journal
from segue.tools.digest import digest_of

_DECISIONS = {
    "TOOL_APPROVAL_GRANTED": ("tool_call_id", "granted"),
    "TOOL_APPROVAL_DENIED": ("tool_call_id", "denied"),
    "QUESTION_ANSWERED": ("question_id", "answered"),
    "CALL_RESOLVED": ("call_id", "resolved"),
}


def open_waits(journal: Journal) -> list[Wait]:
    """What the session waits for, in the order it was asked."""
    with journal.viewing(Waits) as waits:
        return waits.open


def approve(
    journal: Journal,
    call_id: str,
    *,
    arguments: Any = None,
    approver: str = "",
    expires_at: str = "",
) -> None:
    """Grant one call: with its arguments as they were shown, or with `arguments` (a JSON object) in their place.

    `expires_at` is ISO 8601 in UTC, as the record writes times: the call must start before it.
    Raises `AlreadyDecided`, `NotWaiting`, `UsageError`, `StorageError`.
    """

    def granted(wait: Wait) -> Event:
        edited = {} if arguments is None else {"arguments": _object(arguments)}
        digest = digest_of(wait.name, edited.get("arguments", wait.arguments))
        return ToolApprovalGranted(
            tool_call_id=call_id, digest=digest, approver=approver, expires_at=expires_at, **edited
        )

    _decide(journal, call_id, "approval", granted)


def deny(journal: Journal, call_id: str, *, reason: str = "", approver: str = "") -> None:
    """Refuse one call; `reason` are words to the model. Raises as `approve`."""
    denied = ToolApprovalDenied(tool_call_id=call_id, reason=reason, approver=approver)
    _decide(journal, call_id, "approval", lambda _: denied)


def answer(journal: Journal, question_id: str, value: Any, *, by: str = "") -> None:
    """Answer a question: with one of its options, where it has some. Raises as `approve`."""

    def answered(wait: Wait) -> Event:
        if wait.options and value not in wait.options:
            raise UsageError(f"{wait.name!r} takes one of: {', '.join(wait.options)}")
        return QuestionAnswered(question_id=question_id, answer=to_json(value), by=by)

    _decide(journal, question_id, "question", answered)


def resolve(
    journal: Journal,
    call_id: str,
    action: Literal["retry", "skip", "result"],
    *,
    result: Any = None,
    by: str = "",
) -> None:
    """Say what became of a started call whose outcome nobody knows: do it again, leave it, or this was its result.

    Raises as `approve`.
    """
    given = {"result": to_json(result)} if action == "result" else {}
    resolved = CallResolved(call_id=call_id, action=action, by=by, **given)
    _decide(journal, call_id, "unknown_outcome", lambda _: resolved)


def _decide(journal: Journal, wait_id: str, kind: str, decision: Callable[[Wait], Event]) -> None:
    """Written only onto the very state that was looked at; when that moved on meanwhile, look again."""
    while True:
        last = journal.last_seq
        with journal.viewing(Waits) as waits:
            wait = waits.get(wait_id)
        if wait is None or wait.kind != kind:
            raise _not_open(journal, wait_id, kind)
        try:
            journal.append(decision(wait), expected_seq=last)
        except StaleWriter:
            continue
        return


def _not_open(journal: Journal, wait_id: str, kind: str) -> Exception:
    found = None
    for row in journal.read():
        field, word = _DECISIONS.get(row.type, ("", ""))
        if field and row.payload.get(field) == wait_id:
            found = word
    if found is None:
        named = {
            "approval": "approval",
            "question": "question",
            "unknown_outcome": "call of unknown outcome",
        }[kind]
        return NotWaiting(
            f"session {journal.session_id} waits for no {named} {wait_id!r}: `segue sessions show"
            f" {journal.session_id}` shows what it waits for"
        )
    return AlreadyDecided(f"{wait_id} was {found} already; that decision counts", decision=found)


def _object(arguments: Any) -> Any:
    value = to_json(arguments)
    if type(value) is not dict:
        raise UsageError("arguments are a JSON object: the values by parameter name")
    return value
