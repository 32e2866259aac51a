"""The SQL of the index, by name. It is source: `schema.sql`, and `queries.sql` with `-- name:` before each."""

from __future__ import annotations

import functools
from pathlib import Path

from segue.index.words import TOKENIZER


@functools.cache
def schema() -> str:
    return _source("schema.sql").replace("{tokenizer}", TOKENIZER)


def query(name: str) -> str:
    """One statement, without what `{...}` in it stands for filled in."""
    return _queries()[name]


@functools.cache
def _queries() -> dict[str, str]:
    found = {}
    for part in _source("queries.sql").split("-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        found[name.strip()] = statement.strip()
    return found


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
