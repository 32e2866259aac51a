"""What `verify` finds: one struct for every kind of damage, with what `repair` does about it."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "row_damaged",
    "row_missing",
    "row_changed",
    "row_misplaced",
    "line_extra",
    "rows_unproven",
    "segment_missing",
    "segment_stray",
    "checksum_wrong",
    "checksum_missing",
    "position_damaged",
    "position_ahead",
    "not_published",
    "torn_append",
    "meta_missing",
    "meta_damaged",
    "meta_foreign",
    "format_newer",
    "misplaced",
    "blob_damaged",
    "blob_missing",
    "blob_lost",
    "blob_log",
    "git_damaged",
    "git_differs",
    "git_settings",
    "repair_interrupted",
    "leftover",
    "stray",
    "link",
    "permissions",
]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    path: str
    """The file or folder, absolute."""
    detail: str
    """One sentence: what is wrong."""
    repair: str
    """One sentence: what `segue sessions repair` does about it, or what a person has to do."""
    line: int = 0
    """First line concerned, from 1; 0 when it is not about lines."""
    last_line: int = 0
    offset: int = -1
    """Byte where that line begins, -1 when it is not about lines."""
    first_seq: int = 0
    """Rows concerned; 0 when it is not about rows."""
    last_seq: int = 0
    lost: bool = False
    """Whether acknowledged rows or kept bytes are gone: neither the file nor the commits have them."""
    note: bool = False
    """Whether it is no damage: what a crash leaves, and the next open or commit puts right by itself."""

    def describe(self) -> str:
        """Place and problem as one line."""
        place = self.path
        if self.line:
            lines = (
                f"line {self.line}"
                if self.last_line <= self.line
                else f"lines {self.line} to {self.last_line}"
            )
            place += f", {lines} (byte {self.offset})"
        return f"{place}: {self.detail}"


def seqs(first: int, last: int) -> str:
    """`row 5` or `rows 5 to 9`."""
    return f"row {first}" if first == last else f"rows {first} to {last}"


def damage_in(problems: list[Problem]) -> list[Problem]:
    """Those that are no notes."""
    return [problem for problem in problems if not problem.note]
