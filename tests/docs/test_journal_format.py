"""The page of the journal format names every key of a row, every event and every field."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from segue.events import EVENTS, Envelope, Event

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "journal-format.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def section(cls: type[Event]) -> str:
    return PAGE.split(f"#### {cls.TYPE}\n", 1)[1].split("####", 1)[0]


def test_the_generated_part_is_up_to_date() -> None:
    assert generator().with_reference(PAGE) == PAGE, "run: python docs/generate.py"


@pytest.mark.parametrize("cls", EVENTS.values(), ids=list(EVENTS))
def test_every_field_of_every_event_is_in_its_table(cls: type[Event]) -> None:
    named = [line.split("`")[1] for line in section(cls).splitlines() if line.startswith("| `")]
    assert named == [name for name in cls.__struct_encode_fields__ if name != "v"]


def test_the_envelope_table_has_the_seven_fields_in_order() -> None:
    table = PAGE.split("| key | type | |\n|---|---|---|\n", 1)[1].split("\n\n", 1)[0]
    assert tuple(line.split("`")[1] for line in table.splitlines()) == (Envelope.__struct_fields__)
