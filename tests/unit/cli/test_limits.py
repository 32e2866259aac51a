from __future__ import annotations

import pytest

from segue import Budget
from segue.cli import exits, limits
from segue.errors import BudgetExceeded, UsageError


def test_the_words_are_the_limits_of_a_budget() -> None:
    assert limits.budget([]) is None
    words = ["seconds=1.5", "model_calls=3", "session.cost=5", "session.tokens=1000"]
    wanted = Budget(seconds=1.5, model_calls=3, session=Budget(cost=5, tokens=1000))
    assert limits.budget(words) == wanted


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("calls=3", "the limits are seconds, model_calls, tokens, cost"),
        ("session.session.cost=3", "the limits are"),
        ("cost", "'' is no number"),
        ("tokens=1.5", "'1.5' is no whole number"),
        ("cost=much", "'much' is no number"),
        ("cost=-1", "above 0"),
        ("cost=nan", "above 0"),
    ],
)
def test_what_is_no_limit_says_so(word: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        limits.budget([word])


def test_a_limit_is_given_once() -> None:
    with pytest.raises(UsageError, match="cost is limited twice"):
        limits.budget(["cost=1", "session.cost=1", "cost=2"])


def test_time_that_is_over_has_the_exit_code_of_a_time_limit() -> None:
    codes = [exits.exit_code(BudgetExceeded("x", limit=limit)) for limit in ("seconds", "cost")]
    assert codes == [exits.TIME_LIMIT, exits.FAILED]
