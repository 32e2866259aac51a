"""What providers ask for their models, as the package genai-prices knows it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from genai_prices import Usage, calc_price

PROVIDERS = {"openai", "anthropic"}
"""Dialects that are the names of providers, too."""
COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cached_tokens",
    "cache_write_tokens": "cache_write_tokens",
}
"""Their name of a count -> ours."""


def price(model: str, usage: Mapping[str, int | float]) -> Decimal | None:
    """US dollars for what one call of a model (`dialect:name`) used; None when nobody knows its price."""
    dialect, _, name = model.partition(":")
    if dialect not in PROVIDERS:
        return None
    tokens = {name: int(usage.get(ours, 0)) for name, ours in COUNTS.items()}
    try:
        return calc_price(Usage(**tokens), name, provider_id=dialect).total_price
    except LookupError:
        return None
