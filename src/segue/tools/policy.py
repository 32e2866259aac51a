"""The approval policy: tools of which every call needs an approval, whatever the code says. It only adds gates."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from segue import settings
from segue.errors import InvalidPolicy
from segue.tools.options import is_name
from segue.tools.tool import DECLARED


class Policy(msgspec.Struct, frozen=True):
    """`tools`: name of each gated tool -> where that was said."""

    tools: dict[str, str] = {}

    def gates(self, name: str) -> bool:
        return name in self.tools

    def unknown(self) -> list[str]:
        """What it names that nothing in this process has declared as a tool, said in a sentence each."""
        return [_unknown(name, place) for name, place in self.tools.items() if name not in DECLARED]

    def check(self) -> None:
        """Called where all tools are declared. Raises `InvalidPolicy` for a name that is none: it gates nothing."""
        if unknown := self.unknown():
            raise InvalidPolicy("; ".join(unknown))


def load_policy() -> Policy:
    """`approval_tools` of the configuration file and SEGUE_APPROVAL_POLICY, both together. Raises `InvalidPolicy`."""
    tools: dict[str, str] = {}
    for place, names in settings.approval_policy():
        tools |= dict.fromkeys(_checked(place, names), place)
    return Policy(tools)


def _checked(place: str, names: Any) -> list[str]:
    if not isinstance(names, list):
        raise InvalidPolicy(f'{place} is no list of tool names: write it as ["send", "pay"]')
    for name in names:
        if not (isinstance(name, str) and is_name(name)):
            raise InvalidPolicy(
                f"{place} names {name!r}, which cannot be a tool's name: they are 1 to 64 of A-Z a-z 0-9 _ -, in the"
                " variable with commas between them"
            )
    return names


def _unknown(name: str, place: str) -> str:
    close = difflib.get_close_matches(name, DECLARED, n=1)
    meant = f": did you mean {close[0]}?" if close else ""
    return f"{place} names {name}, which is no tool of this program{meant}"
