"""500 seeded histories hold; each planted bug is found. More: `make simulate`; one: `simulate.py --seed N`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import planted
import simulate
from world import Violation

FOLDER = Path(__file__).parent
SEEDS = 500
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_every_history_holds(part: int) -> None:
    lives = sum(simulate.play(seed).lives for seed in range(part, SEEDS, PARTS))
    assert lives > SEEDS // PARTS * 2, "programs that never stop prove nothing"


@pytest.mark.parametrize("name", [name for name in planted.PLANTED if name not in planted.SLOW])
def test_a_planted_bug_is_found(name: str) -> None:
    with planted.PLANTED[name](), pytest.raises(Violation):
        for seed in range(100):
            simulate.play(seed)


def test_a_history_is_made_by_its_number_alone() -> None:
    """In another process too, whose sets have another order."""
    program = "import simulate, sys; print('\\n'.join(simulate.play(int(sys.argv[1])).trail))"
    for seed in (7, 24):
        trails = [
            subprocess.run(
                [sys.executable, "-c", program, str(seed)],
                env={**os.environ, "PYTHONHASHSEED": order, "PYTHONPATH": str(FOLDER)},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for order in ("1", "2")
        ]
        assert trails[0] == trails[1] != ""
