"""A report from a file of notes: agentic functions inside agentic functions, a gate with choices, written sections.

    segue run examples/report.py:report "Report on the roof for the members" --model local

The local model is very small. It shows that everything is real; for a good report, name a better one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segue import agentic_function

NOTES = Path(__file__).parent / "material" / "roof.txt"
SHORT, LONG = 2, 3
"""How many parts of the notes are reported."""
TOPICS = ["water", "tiles", "money"]
STEADY = {"temperature": 0.0, "seed": 7}
"""The same words every time, as far as the model can do that."""


@agentic_function(render_range={"callers": 1, "subcalls": 0})
def report(request: str, runtime: Any = None) -> str:
    """You write short, plain reports."""
    length = runtime.exec("How long should the report be?", choices=["short", "long"], **STEADY)
    titles = list(parts_of(NOTES))[: LONG if length == "long" else SHORT]
    return "\n\n".join(write_section(title) for title in titles)


@agentic_function(render_range={"callers": 0})
def write_section(title: str, runtime: Any = None) -> str:
    """You summarize notes in plain words. Keep names and numbers as they are."""
    notes = parts_of(NOTES)[title]
    reply = runtime.exec(f"Summarize these notes in two sentences:\n\n{notes}", max_tokens=75, **STEADY)
    text = whole_sentences(reply)
    return f"{title} (about {topic_of(text)})\n{text}"


@agentic_function(render_range={"callers": 0})
def topic_of(text: str, runtime: Any = None) -> str:
    """You sort texts by their topic."""
    return str(runtime.exec("What is the text about?", choices=TOPICS, **STEADY))


def parts_of(path: Path) -> dict[str, str]:
    """Title -> text of each part of the notes that begins with `# title`, in order."""
    parts = (part.partition("\n") for part in path.read_text(encoding="utf-8").split("\n# ")[1:])
    return {title: " ".join(text.split()) for title, _, text in parts}


def whole_sentences(text: str) -> str:
    """The text up to its last full stop: the limit of tokens cuts the last sentence off."""
    head, stop, _ = text.strip().rpartition(".")
    return head + stop if stop else text.strip()
