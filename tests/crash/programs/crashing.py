"""What the crash harness runs with the installed program."""

from __future__ import annotations

from typing import Any

from segue import agentic_function


@agentic_function
def detail(about: str, runtime: Any = None) -> str:
    """Give one vivid detail."""
    return str(runtime.exec(f"A detail about {about}"))


@agentic_function
def report(topic: str, runtime: Any = None) -> str:
    """Write two sentences with the detail in them."""
    found = detail(topic)
    return str(runtime.exec(f"Write about {topic} with this: {found}"))


@agentic_function
def note(text: str) -> str:
    """Keep a note: the fewest rows that a turn can have."""
    return text
