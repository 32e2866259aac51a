"""A program that asks a person: free text, options, and a form."""

from __future__ import annotations

import dataclasses
from typing import Literal

from segue import agentic_function, ask_user


@dataclasses.dataclass
class Stay:
    nights: int
    room: Literal["quiet", "large"]
    note: str = ""


@agentic_function
def book(name: str) -> str:
    """Book a stay."""
    town = ask_user(f"Where does {name} go?")
    meal = ask_user("Which meal?", options=["fish", "soup"])
    stay = ask_user("Which stay?", schema=Stay)
    assert isinstance(stay, Stay)
    return f"{town}: {meal}, {stay.nights} nights, {stay.room}, {stay.note or 'no note'}"
