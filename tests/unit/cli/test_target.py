"""`module:function` and `path/file.py:function` name the same function."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.cli.target import load_target
from segue.errors import UsageError


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a package, as the current one; nothing of it stays imported."""
    package = tmp_path / "project" / "seg_pkg"
    package.mkdir(parents=True)
    (package / "seg_inner.py").write_text(
        "class Desk:\n    @staticmethod\n    def ask(): return 'asked'\nlimit = 3\n"
    )
    (tmp_path / "seg_outside.py").write_text("def f(): return 'outside'\n")
    (tmp_path / "json.py").write_text("def f(): return 'not the library'\n")
    monkeypatch.chdir(package.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield package.parent
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("place", ["seg_pkg.seg_inner", "seg_pkg/seg_inner.py", "./seg_pkg/seg_inner.py"])
def test_a_function_is_found_by_module_and_by_path(place: str) -> None:
    function = load_target(f"{place}:Desk.ask")
    assert (function(), function.__module__) == ("asked", "seg_pkg.seg_inner")


def test_a_file_outside_the_current_folder_is_loaded(tmp_path: Path) -> None:
    assert load_target(f"{tmp_path}/seg_outside.py:f")() == "outside"


def test_a_file_that_is_named_like_a_loaded_module_is_still_that_file(tmp_path: Path) -> None:
    assert load_target(f"{tmp_path}/json.py:f")() == "not the library"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("seg_pkg.seg_inner", "write it as module:function"),
        (":f", "write it as module:function"),
        ("seg_pkg.nothing:f", "there is no module 'seg_pkg.nothing'"),
        ("nothing.at.all:f", "there is no module 'nothing'"),
        ("seg_pkg/nothing.py:f", "there is no file seg_pkg/nothing.py"),
        ("seg_pkg.seg_inner:desk", "has no desk: did you mean Desk"),
        ("seg_pkg.seg_inner:limit", "is not a function, but int"),
    ],
)
def test_what_cannot_be_found_is_a_usage_error(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_target(target)
