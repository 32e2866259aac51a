"""500 seeded histories hold; each planted bug is found. More: `make simulate`; one: `simulate.py --seed N`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import planted
import simulate
from world import Violation

SEEDS = 500
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_every_history_holds(part: int) -> None:
    lives = sum(simulate.play(seed).lives for seed in range(part, SEEDS, PARTS))
    assert lives > SEEDS // PARTS * 2, "programs that never stop prove nothing"


@pytest.mark.parametrize("name", planted.PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    with planted.PLANTED[name](), pytest.raises(Violation):
        for seed in range(10_000):
            simulate.play(seed)


def test_a_history_is_made_by_its_number_alone() -> None:
    first, second = (simulate.play(7) for _ in range(2))
    assert [row.type for row in first.world.rows()] == [row.type for row in second.world.rows()]
    assert first.lives == second.lives
