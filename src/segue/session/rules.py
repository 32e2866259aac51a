"""Which rule grants a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from segue.fold.rules import Rule
from segue.tools.digest import digest_of
from segue.tools.tool import Tool


def admitting(rules: Iterable[Rule], tool: Tool[..., Any], arguments: Any) -> Rule | None:
    """The first rule for the tool as it is declared now that admits these arguments (as JSON, defaults included)."""
    mine = [rule for rule in rules if rule.tool == tool.name]
    declaration = tool.declaration() if mine else ""
    return next((rule for rule in mine if admits(rule, tool.name, declaration, arguments)), None)


def admits(rule: Rule, name: str, declaration: str, arguments: Any) -> bool:
    """`arguments` as JSON; compared as such, where `1`, `1.0` and `true` are three things."""
    if rule.tool != name or not rule.declaration or rule.declaration != declaration:
        return False
    return rule.arguments is None or digest_of(name, rule.arguments) == digest_of(name, arguments)
