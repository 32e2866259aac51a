"""Agentic functions that the acceptance tests run from every entry point."""

from __future__ import annotations

from typing import Any

from segue import agentic_function, ask_user


@agentic_function
def detail(about: str, runtime: Any = None) -> str:
    """Give one vivid detail."""
    return str(runtime.exec(f"A detail about {about}"))


@agentic_function
def tell(topic: str, runtime: Any = None) -> str:
    """Tell a short story.

    You are a careful writer. A story has a beginning, a middle and an end; it names one place, one person and one
    thing that goes wrong. Use plain words and short sentences. Do not explain the story, do not add a title, do not
    speak to the reader. When a detail is given, it must be in the story, unchanged. When the topic is a question,
    the story answers it without saying so.
    """
    found = detail(topic)
    mood = runtime.exec("Which mood?", choices=["sad", "merry"])
    return str(runtime.exec(f"Tell it in a {mood} mood with this: {found}"))


@agentic_function
def decide(topic: str) -> str:
    """Ask before going on."""
    return str(ask_user(f"Go on with {topic}?", options=["yes", "no"]))
