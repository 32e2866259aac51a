"""The fold cache on known journals; and a reminder: what one version of the fold saved, another must not believe."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from segue.events import EVENT_TYPES, Envelope
from segue.events.codec import decode_row, encode_row
from segue.fold import CallGraph, Conversation, Turns, Waits
from segue.fold.path import active_path
from segue.journal import Journal, cache, kept
from segue.stores.memory import MemoryStore

CACHED: list[type[Any]] = [Conversation, CallGraph, Turns, Waits]
HERE = Path(__file__).parent
DIGESTS = {
    1: "48061eb1216076cde0d103f8b22d5184ea9a8dd1de57fd1007d7eef263e7a7f2",
    2: "72d094791069ff94a85c46e880f16e2624695572febce26a5b668f6ec06b64cc",
    3: "7bd9035ffe5adfff9b87c7eeefd655ef413e7bd3e8a84aeaaf56f1d53550aba3",
}


def journals() -> list[list[Envelope]]:
    cases = [
        json.loads(line)["rows"]
        for name in ("scenarios.jsonl", "journals.jsonl")
        for line in (HERE / "fold" / name).read_text(encoding="utf-8").splitlines()
    ]
    stored = [
        [
            decode_row(
                encode_row(Envelope(f"evt_{seq}", "ses", "dep", seq, kind, payload, "2026-01-01T00:00:00Z"))
            )
            for seq, (kind, payload) in enumerate(rows, 1)
            if isinstance(payload, dict)
        ]
        for rows in cases
    ]
    corpus = (HERE.parent / "corpus" / "v1.jsonl").read_bytes().splitlines()
    return [*stored, [decode_row(line) for line in corpus]]


def shown(view: Any) -> Any:
    return (view.open, view.changes().calls) if isinstance(view, Waits) else view.changes(whole=True)


def saved(cls: type[Any], journal: list[Envelope]) -> bytes:
    """The record of the whole journal, and that of its second half."""
    store = MemoryStore()
    store.create("ses")
    file, view, path = (
        cache.Cache(store, "ses", cls),
        cls(),
        active_path(journal) if cls is Conversation else journal,
    )
    for row in path:
        view.apply(row)
        if row.seq == len(journal) // 2:
            file.note(view, row)
    file.note(view, journal[-1])
    file.write()
    return store.read_cache("ses", cls.__name__.lower())


@pytest.mark.parametrize("cls", CACHED)
def test_a_cold_view_of_a_known_journal_is_its_fold_wherever_it_was_saved(
    cls: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ROWS", 1)
    monkeypatch.setattr(kept, "ENDINGS", EVENT_TYPES)
    for journal in journals():
        right = cls()
        for row in active_path(journal) if cls is Conversation else journal:
            right.apply(row)
        expected = shown(right)
        for cut in random.Random(len(journal)).sample(range(len(journal)), min(len(journal), 5)):
            store = MemoryStore()
            store.create("ses")
            for rows in (journal[:cut], journal[cut:]):
                store._session("ses").lines.extend(map(encode_row, rows))
                view = Journal(store, "ses").view(cls)
            assert shown(view) == expected


def test_what_is_saved_of_known_journals_changes_only_together_with_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When this fails: if rows fold to something else now, or are saved in another form, raise `cache.VERSION`;
    then write the new digest down. Old digests stay, so that no version is used again."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "chain")
    digest = hashlib.sha256()
    for journal in journals():
        for cls in CACHED:
            digest.update(saved(cls, journal))
    assert DIGESTS[cache.VERSION] == digest.hexdigest()


def test_no_two_versions_are_the_same() -> None:
    assert len(set(DIGESTS.values())) == len(DIGESTS)
    assert max(DIGESTS) == cache.VERSION
