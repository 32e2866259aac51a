from __future__ import annotations

import pytest

from segue.typed.docstrings import Documented, documented

GOOGLE = """Find things.

    More about it:
      - a list

    Args:
        query: what to find,
            over two lines
        limit (int, optional): how many

    Returns:
        The things.

    After it.
    """
NUMPY = """Find things.

    Parameters
    ----------
    query : str
        What to find,
        over two lines
    limit, most : int
        How many

    Returns
    -------
    list
        The things.
    """
SPHINX = """Find things.

    :param query: what to find,
        over two lines
    :type query: str
    :param int limit: how many
    :returns: the things
    """


def test_googles_style() -> None:
    assert documented(GOOGLE) == Documented(
        "Find things.\n\nMore about it:\n  - a list\n\nReturns:\n    The things.\n\nAfter it.",
        {"query": "what to find, over two lines", "limit": "how many"},
    )


def test_numpys_style() -> None:
    assert documented(NUMPY) == Documented(
        "Find things.\n\nReturns\n-------\nlist\n    The things.",
        {"query": "What to find, over two lines", "limit": "How many", "most": "How many"},
    )


def test_sphinxs_style() -> None:
    assert documented(SPHINX) == Documented(
        "Find things.\n\n:returns: the things", {"query": "what to find, over two lines", "limit": "how many"}
    )


def test_a_docstring_that_begins_with_its_parameters() -> None:
    assert documented("\n    Args:\n        query: what\n    ") == Documented("", {"query": "what"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Note: this is text.\n\nExample: no section.\nWith {braces} and: colons:\n  - q: an item",
        ":param broken",
        "Parameters\nof the flight",
        "Returns: nothing",
    ],
)
def test_text_without_parameters_stays_as_it_is(text: str) -> None:
    assert documented(text) == Documented(text, {})


def test_no_docstring_is_no_text() -> None:
    assert documented(None) == Documented("", {})
