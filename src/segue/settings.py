"""The only reader of environment and configuration, lazily: nothing is read at import."""

from __future__ import annotations

import os
import pwd
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from segue.errors import UsageError


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    home: Path
    """SEGUE_HOME, default `~/.segue`. Sessions are in `home/sessions`, the configuration is `home/config.toml`."""
    model: str
    """SEGUE_MODEL or `model` in the configuration; empty when neither is set."""
    model_from: str
    """Where `model` comes from, for people: "SEGUE_MODEL", "config.toml", or empty."""
    deployment_id: str
    """SEGUE_DEPLOYMENT_ID: names the code that writes; default `local`."""

    @property
    def sessions(self) -> Path:
        return self.home / "sessions"

    @property
    def index(self) -> Path:
        """The index of all sessions: a cache, which may be deleted."""
        return self.home / "index.sqlite"

    @property
    def models(self) -> Path:
        """Where fetched weights are kept."""
        return self.home / "models"


def load_settings() -> Settings:
    """Read environment and configuration file now. Raises `UsageError` when the file is not valid TOML."""
    home = Path(os.environ.get("SEGUE_HOME") or _user_home() / ".segue").absolute()
    config = _read_config(home / "config.toml")
    from_environment = os.environ.get("SEGUE_MODEL", "")
    model = from_environment or str(config.get("model", ""))
    origin = "SEGUE_MODEL" if from_environment else "config.toml" if model else ""
    return Settings(
        home=home,
        model=model,
        model_from=origin,
        deployment_id=os.environ.get("SEGUE_DEPLOYMENT_ID") or str(config.get("deployment_id", "local")),
    )


def home_key() -> str:
    """What decides `Settings.home`, cheap enough to ask at every entry."""
    return f"{os.environ.get('SEGUE_HOME', '')}|{os.environ.get('HOME', '')}"


def approval_policy() -> list[tuple[str, Any]]:
    """What says which tools need an approval, with where it was said; unchecked. Raises `UsageError` as above."""
    home = Path(os.environ.get("SEGUE_HOME") or _user_home() / ".segue").absolute()
    path = home / "config.toml"
    config = _read_config(path)
    said: list[tuple[str, Any]] = []
    if "approval_tools" in config:
        said.append((f"approval_tools in {path}", config["approval_tools"]))
    if text := os.environ.get("SEGUE_APPROVAL_POLICY", ""):
        said.append(("SEGUE_APPROVAL_POLICY", [name.strip() for name in text.split(",")]))
    return said


def environment(name: str) -> str:
    """One variable, empty when unset: provider keys and base URLs are read through this, when they are needed."""
    return os.environ.get(name, "")


def _user_home() -> Path:
    """HOME; where it is not set, or empty, the home of the user's account."""
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}. SEGUE_HOME names the folder to use."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}. Fix or remove it.") from error
