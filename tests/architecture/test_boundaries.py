"""Rules that no type checker sees: who sets the ambient state, who reads the environment, what an import loads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "segue"
FILES = sorted(SOURCE.rglob("*.py"))
AMBIENT = {"_store", "_current_turn_id", "_current_runtime", "_call_id"}
VAGUE = {"core", "utils", "util", "helpers", "common", "manager"}

FUNCTION_IMPORTS: dict[str, str] = {}
"""File -> why an import inside a function is right there. Empty, and it should stay so."""


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def contextvars_made(path: Path) -> set[str]:
    """Names that a module binds to a new ContextVar."""
    made = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes_contextvar(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made |= {ast.unparse(target) for target in targets}
    return made


def _makes_contextvar(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1].startswith("ContextVar")


def ambient_sets(path: Path) -> list[str]:
    """Calls that set or reset one of the ambient ContextVars, directly or through another name."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("set", "reset")
        and _is_ambient(ast.unparse(node.func.value))
    ]


def _is_ambient(expression: str) -> bool:
    return expression.split(".")[-1] in AMBIENT


def environment_reads(path: Path) -> list[str]:
    reads = [
        ast.unparse(node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.environb", "os.getenv")
    ]
    return reads + [
        f"from os import {name}" for name in _names_from_os(path) if name in ("environ", "getenv")
    ]


def _names_from_os(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from (alias.name for alias in node.names)


def argv_reads(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.argv" for node in ast.walk(tree(path))
    )


def function_imports(path: Path) -> list[int]:
    """Lines of imports inside functions."""
    functions = [
        node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sorted(
        {
            node.lineno
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
    )


def test_the_ambient_contextvars_are_made_once_and_in_one_place() -> None:
    made = {name_of(path): contextvars_made(path) for path in FILES if contextvars_made(path)}
    assert made == {"session/ambient.py": AMBIENT}


def test_only_the_session_context_sets_the_ambient_contextvars() -> None:
    setters = {name_of(path) for path in FILES if ambient_sets(path)}
    assert setters == {"session/context.py"}


def test_a_module_that_imports_a_contextvar_by_name_is_the_context_itself() -> None:
    importers = {
        name_of(path)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and AMBIENT & {alias.name for alias in node.names}
    }
    assert importers == {"session/context.py"}


def test_only_settings_read_the_environment() -> None:
    readers = {name_of(path) for path in FILES if environment_reads(path)}
    assert {name for name in readers if not name.startswith("testing/")} == {"settings.py"}


def test_only_the_command_line_reads_argv() -> None:
    assert {name_of(path).split("/")[0] for path in FILES if argv_reads(path)} <= {"cli", "testing"}


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    parts = {part for path in FILES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert parts & VAGUE == set()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_imported_inside_a_function(path: Path) -> None:
    assert name_of(path) in FUNCTION_IMPORTS or function_imports(path) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert not path.stat().st_size or ast.get_docstring(tree(path))
