"""Decisions on open waits, from anywhere: the first one on a wait counts, whoever comes later is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from segue.errors import AlreadyDecided, NotWaiting, StaleWriter, UsageError
from segue.events.codec import encode_json
from segue.events.facts import (
    ApprovalRuleSet,
    CallResolved,
    Event,
    QuestionAnswered,
    ToolApprovalDenied,
    ToolApprovalGranted,
)
from segue.events.json_values import to_json
from segue.fold.rules import Rule, Rules
from segue.fold.waits import Wait, Waits
from segue.ids import new_id
from segue.journal import Journal
from segue.session.answers import fitting
from segue.session.rules import admits
from segue.tools.digest import digest_of
from segue.tools.tool import as_tool

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
    always: Literal["", "these", "any"] = "",
    tool: Any = None,
) -> list[str]:
    """Grant one call: with its arguments as they were shown, or with `arguments` (a JSON object) in their place.

    `expires_at` is ISO 8601 in UTC, as the record writes times: the call must start before it. `tool` is the tool
    itself, where it is at hand: `arguments` are then checked against it, and stand as it would run them.

    `always` also sets a rule for the session, until it is withdrawn: calls of this tool, as it is declared now, with
    `these` very arguments or `any`, are granted without asking; each still has its own row, naming the rule. Gives the
    ids of other calls that wait already and that the rule has granted.

    Raises `AlreadyDecided`, `NotWaiting`, `UsageError`, `InvalidArguments`, `StorageError`.
    """
    if always not in ("", "these", "any"):
        raise UsageError(f"always={always!r}: say 'these' or 'any'")
    if always and (arguments is not None or expires_at):
        raise UsageError(
            "a rule admits calls as they are made: it cannot be set with changed arguments or an end"
        )
    if arguments is not None:
        arguments = _object(arguments if tool is None else _bound(tool, arguments))
    also: list[str] = []

    def granted(wait: Wait, waits: list[Wait]) -> list[Event]:
        edited = {} if arguments is None else {"arguments": arguments}
        digest = digest_of(wait.name, edited.get("arguments", wait.arguments))
        grant = ToolApprovalGranted(
            tool_call_id=call_id, digest=digest, approver=approver, expires_at=expires_at, **edited
        )
        if not always:
            return [grant]
        rule = _rule(journal, wait, any_arguments=always == "any", by=approver)
        admitted = _admitted(rule, wait, waits)
        also[:] = [grant.tool_call_id for grant in admitted]
        return [rule, grant, *admitted]

    _decide(journal, call_id, "approval", granted)
    return also


def deny(journal: Journal, call_id: str, *, reason: str = "", approver: str = "") -> None:
    """Refuse one call; `reason` are words to the model. Raises as `approve`."""
    denied = ToolApprovalDenied(tool_call_id=call_id, reason=reason, approver=approver)
    _decide(journal, call_id, "approval", lambda wait, waits: [denied])


def answer(journal: Journal, question_id: str, value: Any, *, by: str = "") -> None:
    """Answer a question: with one of its options, or a value of its schema, where it has them. Raises as `approve`,
    and `InvalidAnswer` naming everything that does not fit."""

    def answered(wait: Wait, waits: list[Wait]) -> list[Event]:
        checked = fitting(wait.name, wait.options, wait.schema, to_json(value))
        return [QuestionAnswered(question_id=question_id, answer=checked, by=by)]

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
    _decide(journal, call_id, "unknown_outcome", lambda wait, waits: [resolved])


def rules(journal: Journal) -> list[Rule]:
    """The session's rules that were not withdrawn, in the order they were set."""
    with journal.viewing(Rules) as found:
        return found.active


def withdraw(journal: Journal, rule_id: str, *, by: str = "") -> None:
    """Take a rule back: what it would have granted from now on is asked for again. Raises `NotWaiting` when there is no
    such rule (any more)."""
    rule = next((rule for rule in rules(journal) if rule.id == rule_id), None)
    if rule is None:
        raise NotWaiting(f"session {journal.session_id} has no rule {rule_id!r}: `segue rules` lists them")
    taken = ApprovalRuleSet(
        rule_id=rule_id, tool=rule.tool, session_id=journal.session_id, by=by, withdrawn=True
    )
    journal.append(taken)


def _rule(journal: Journal, wait: Wait, *, any_arguments: bool, by: str) -> ApprovalRuleSet:
    if not wait.declaration:
        raise UsageError(f"{wait.name} is asked for by code, not as a tool: no rule can be set for it")
    return ApprovalRuleSet(
        rule_id=new_id("rule"),
        tool=wait.name,
        declaration=wait.declaration,
        predicate=None if any_arguments else {"arguments": wait.arguments},
        session_id=journal.session_id,
        by=by,
    )


def _admitted(rule: ApprovalRuleSet, decided: Wait, waits: list[Wait]) -> list[ToolApprovalGranted]:
    """Grants of what waits already and is admitted too."""
    only = None if rule.predicate is None else rule.predicate["arguments"]
    made = Rule(id=rule.rule_id, tool=rule.tool, declaration=rule.declaration, arguments=only)
    return [
        ToolApprovalGranted(
            tool_call_id=wait.id, digest=digest_of(wait.name, wait.arguments), rule_id=rule.rule_id
        )
        for wait in waits
        if wait.kind == "approval"
        and wait.id != decided.id
        and admits(made, wait.name, wait.declaration, wait.arguments)
    ]


def _decide(
    journal: Journal, wait_id: str, kind: str, decision: Callable[[Wait, list[Wait]], Sequence[Event]]
) -> None:
    """Written only onto the very state that was looked at; when that moved on meanwhile, look again."""
    while True:
        last = journal.last_seq
        with journal.viewing(Waits) as view:
            wait, waits = view.get(wait_id), view.open
        if wait is None or wait.kind != kind:
            raise _not_open(journal, wait_id, kind)
        try:
            journal.append(*decision(wait, waits), expected_seq=last)
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


def _bound(tool: Any, arguments: Any) -> Any:
    return as_tool(tool).bind(encode_json(to_json(arguments)).decode())


def _object(arguments: Any) -> Any:
    value = to_json(arguments)
    if type(value) is not dict:
        raise UsageError("arguments are a JSON object: the values by parameter name")
    return value
