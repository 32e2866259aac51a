"""What changed in a history since it was last saved, in a form that can be written down and taken back.

A saved change says how many of the first entries stay, and gives all others. So it fits on any state that the history
had between the last saving and this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.fold.diagnostics import Diagnostic
from segue.fold.entries import Entry
from segue.fold.frozen import Frozen, Saved, SavedEntry, restore_entry, save_entry
from segue.fold.history import History


class ConversationChanges(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    keep: int
    """How many of the first entries stay."""
    entries: list[dict[str, object] | SavedEntry]
    """All others."""
    diagnostics_keep: int = 0
    diagnostics: list[Diagnostic] = []
    current: int | None = None
    """Entries are named by their position."""
    crash: int | None = None
    open: dict[str, int | None] = {}
    live: dict[str, int] = {}
    cut: list[int] = []
    journaled: list[str] = []


def save(history: History, *, whole: bool) -> ConversationChanges:
    """What changed since the last saving, or everything. What is left behind is frozen."""
    keep, frozen = 0 if whole else history.unsaved, history.frozen
    living = [save_entry(entry) for entry in history.entries]
    changes = ConversationChanges(
        keep=keep,
        entries=[*frozen.items[keep:], *living[max(keep - len(frozen), 0) :]],
        current=_place(history.current),
        crash=_place(history.crash),
        open={key: _place(entry) for key, entry in history.open.items()},
        live={key: entry.index for key, entry in history.live.items()},
        cut=[entry.index for entry in history.cut],
        journaled=sorted(history.journaled),
    )
    history.unsaved = len(frozen) + len(living)
    history.freeze(living[: _first_living(changes, history.unsaved) - len(frozen)])
    return changes


def shorten(history: History) -> None:
    """Forget what is left behind."""
    save(history, whole=False)
    history.frozen, history.unsaved = Frozen(), 0
    for index, entry in enumerate(history.entries):
        entry.index = index


def restored(changes: Sequence[ConversationChanges]) -> History:
    """The history that gave these changes, all of them from its beginning on. Raises ValueError for others."""
    history, items = History(), list[Saved]()
    for change in changes:
        if change.keep > len(items):
            raise ValueError(f"{change.keep} entries should be there already, not {len(items)}")
        items[change.keep :] = change.entries
    start = _first_living(changes[-1], len(items))
    history.frozen, history.unsaved = Frozen(items[:start]), len(items)
    history.enliven([restore_entry(item, index) for index, item in enumerate(items[start:], start)])
    _set_state(history, changes[-1], start)
    return history


def _set_state(history: History, last: ConversationChanges, start: int) -> None:
    entries = history.entries
    history.current = None if last.current is None else entries[last.current - start]
    history.crash = None if last.crash is None else entries[last.crash - start]
    history.open = {key: None if at is None else entries[at - start] for key, at in last.open.items()}
    history.live = {key: entries[at - start] for key, at in last.live.items()}
    history.cut = [entries[at - start] for at in last.cut]
    history.journaled = set(last.journaled)


def _first_living(state: ConversationChanges, count: int) -> int:
    """The first entry that rows to come may change: the last one is among them, if there is any."""
    places = [state.current, state.crash, *state.open.values(), *state.live.values(), *state.cut]
    return min([max(count - 1, 0), *(place for place in places if place is not None)])


def _place(entry: Entry | None) -> int | None:
    return None if entry is None else entry.index
