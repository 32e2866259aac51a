"""A report from a file of notes: agentic functions inside agentic functions, one gate, three written sections.

segue run examples/report.py:report "Report on the roof for the members" --model local
"""

from __future__ import annotations

from pathlib import Path

from segue import agentic_function

NOTES = Path(__file__).parent / "material" / "roof.txt"
READERS = ["members", "committee", "press"]
STEADY = {"temperature": 0.0, "seed": 7}
"""The same words every time, as far as the model can do that."""


@agentic_function
def report(request: str, runtime=None) -> str:
    """You write short, plain reports from notes. You only say what the notes say."""
    reader = runtime.exec("Who is going to read this report?", choices=READERS, max_tokens=8, **STEADY)
    sections = [write_section(title, text) for title, text in read_sections(NOTES)]
    closing = runtime.exec(f"Thank the {reader} in one short sentence.", max_tokens=30, **STEADY)
    return "\n\n".join([f"For the {reader}", *sections, closing.strip()])


@agentic_function(render_range={"callers": 0})
def write_section(title: str, notes: str, runtime=None) -> str:
    """Write one section of a report from these notes, in two plain sentences. Keep all numbers as they are."""
    text = runtime.exec("Write the section now.", max_tokens=80, **STEADY)
    return f"{title}: {name_section(whole_sentences(text))}\n{whole_sentences(text)}"


@agentic_function(render_range={"callers": 0})
def name_section(text: str, runtime=None) -> str:
    """Name what this text is about, in at most five words."""
    return runtime.exec("The name:", max_tokens=12, **STEADY).strip().strip('".')


def read_sections(path: Path) -> list[tuple[str, str]]:
    """Title and text of each part of the notes that begins with `# title`; the first three."""
    parts = path.read_text(encoding="utf-8").split("\n# ")[1:4]
    return [(title, " ".join(text.split())) for title, _, text in (part.partition("\n") for part in parts)]


def whole_sentences(text: str) -> str:
    """The text up to its last full stop: a small model is often cut off by its limit."""
    end = text.strip().rfind(". ") if not text.strip().endswith(".") else len(text.strip())
    return text.strip()[: end + 1] if end > 0 else text.strip()
