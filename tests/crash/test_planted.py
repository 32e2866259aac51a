"""The harness finds what it is there for: each planted bug. Without one it finds nothing: see the other tests."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import PLANTS
from tests.crash.sweeps import Sweep, sweep_kills, sweep_power
from tests.crash.tracing import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
SEED = 3


def find(plant: str) -> Sweep:
    """Up to the first violation."""
    if plant == "reused_seq":
        return sweep_kills(["create"], plant=plant, calls=["pwrite64"], first=True)
    if plant == "wrong_heal":
        return sweep_power(["create"], seed=SEED, random_states=300, extremes=False, plant=plant, first=True)
    scenario = "api" if plant == "lost_mark" else "create"
    return sweep_power([scenario], seed=SEED, random_states=0, plant=plant, first=True)


EXPECTED = {
    "early_visibility": "had been shown",
    "lost_mark": "the listing has",
    "reused_seq": "",
    "skipped_sync": "had been shown",
    "wrong_heal": "an append is there in part",
}
"""What the first violation says."""


def test_every_planted_bug_is_looked_for() -> None:
    assert sorted(EXPECTED) == list(PLANTS)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str) -> None:
    sweep = find(plant)
    assert sweep.violations, f"{plant} was not found in {sweep.total} cases"
    assert EXPECTED[plant] in sweep.report()
