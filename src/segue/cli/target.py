"""`module:function` or `path/file.py:function`, as something to run: a function, a handler or an app."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from segue.errors import UsageError
from segue.handlers.app import AgentApp


def load_target(target: str) -> Any:
    """Import the module, with the current folder first on the path, and find the function or AgentApp (dots go further
    in).

    Raises `UsageError` when there is no such module or function; what the module's own code raises comes through.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"{target!r}: write it as module:function or path/file.py:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    return _find(module, name)


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {error.name!r} here or installed") from error
        raise


def _load_file(path: Path) -> ModuleType:
    """Under the name it is imported by from the current folder, so that both ways record the same calls."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(1, folder)
    name = _module_name(path)
    found = importlib.util.find_spec(name) if name is not None and name not in sys.modules else None
    if name is not None and found is not None and found.origin and path.samefile(found.origin):
        return _load_module(name)
    return _load_alone(path)


def _load_alone(path: Path) -> ModuleType:
    """A file elsewhere, or one whose name something else has already."""
    spec = importlib.util.spec_from_file_location(
        path.stem if path.stem not in sys.modules else f"{path.stem}_file", path
    )
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _module_name(path: Path) -> str | None:
    """`a.b` for `a/b.py` below the current folder; None for a file elsewhere or a name that is no identifier."""
    try:
        parts = path.resolve().relative_to(Path.cwd()).with_suffix("").parts
    except ValueError:
        return None
    return ".".join(parts) if all(part.isidentifier() for part in parts) else None


def _find(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{module.__name__} has no {name}{_suggestion(part, found)}")
        found = getattr(found, part)
    if not (callable(found) or isinstance(found, AgentApp)):
        raise UsageError(f"{module.__name__}:{name} is not a function, but {type(found).__name__}")
    return found


def _suggestion(name: str, place: Any) -> str:
    functions = [key for key, value in vars(place).items() if callable(value) and not key.startswith("_")]
    close = difflib.get_close_matches(name, functions, n=1)
    return f": did you mean {close[0]}?" if close else ""
