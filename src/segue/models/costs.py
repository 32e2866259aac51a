"""What a model call costs. Prices are loaded when a budget first asks for one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from decimal import Decimal

from segue.errors import MissingExtra

FREE = {"local", "scripted"}
"""Dialects of models that nobody sends a bill for."""


def cost(model: str, usage: Mapping[str, int | float]) -> Decimal | None:
    """US dollars for what one call of a model (`dialect:name`) used; None when nobody knows its price.

    Raises `MissingExtra` where the package with the prices is not installed.
    """
    if model.partition(":")[0] in FREE:
        return Decimal(0)
    if importlib.util.find_spec("genai_prices") is None:
        raise MissingExtra("a budget with a cost needs prices: pip install 'segue[prices]'")
    priced: Decimal | None = importlib.import_module("segue.models.prices").price(model, usage)
    return priced
