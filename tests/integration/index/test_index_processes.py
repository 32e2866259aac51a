"""Listing is right while many processes write and list, and after some of them were killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Home

PROGRAM = Path(__file__).parents[2] / "programs" / "names.py"


@contextmanager
def process(place: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "SEGUE_HOME": str(place)}
    command = [sys.executable, str(PROGRAM), *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def titles(home: Home) -> dict[str, str]:
    return {info.session_id: info.title for info in home.list_sessions(without_turns=True)}


def test_of_two_processes_that_make_and_rename_500_sessions_each_all_are_listed(
    here: Home, place: Path
) -> None:
    seen = [0]
    with process(place, "rename", "a", "500") as one, process(place, "rename", "b", "500") as two:
        while one.poll() is None or two.poll() is None:
            seen.append(len(here.list_sessions(without_turns=True)))
        assert (one.wait(), two.wait()) == (0, 0)
    assert titles(here) == {f"{name}-{n}": f"name {n} by {name}" for name in "ab" for n in range(500)}
    assert (seen == sorted(seen), here.saying("name by")) == (True, sorted(here.store.sessions()))
    assert here.store.marked() == []


def test_after_kill_9_of_writers_and_listers_listing_and_search_are_those_of_the_journals(
    here: Home, place: Path
) -> None:
    chance = random.Random(5)
    acknowledged: dict[str, str] = {}
    for round_number in range(8):
        prefixes = [f"{name}{round_number}" for name in "ab"]
        with (
            process(place, "rename", prefixes[0], "500") as one,
            process(place, "rename", prefixes[1], "500") as two,
            process(place, "list") as three,
        ):
            _lines(three, 1)
            for child in chance.sample([one, two, three], 3):
                acknowledged |= _named(_lines(one, chance.randrange(4)) + _lines(two, chance.randrange(4)))
                child.kill()
            acknowledged |= _named(_rest(one) + _rest(two))
        listed = here.look()
        assert listed == here.folded()
        assert acknowledged.items() <= titles(here).items()
    named = [session_id for session_id, title in titles(here).items() if "name" in title]
    assert here.saying("name") == sorted(named)


def _lines(child: subprocess.Popen[str], count: int) -> list[str]:
    assert child.stdout is not None
    return [child.stdout.readline() for _ in range(count)]


def _rest(child: subprocess.Popen[str]) -> list[str]:
    assert child.stdout is not None
    return child.stdout.readlines()


def _named(lines: list[str]) -> dict[str, str]:
    """Session and title of whole lines: a killed process may leave half of one."""
    return dict(line.rstrip("\n").split(" ", 1) for line in lines if line.endswith("\n"))
