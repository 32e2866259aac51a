"""Which model to use, and why: the argument, SEGUE_MODEL, the configuration, a provider's key, the local
model."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from pathlib import Path
from typing import Any

import msgspec

from segue.errors import MissingExtra, NoModel, UsageError
from segue.models.protocol import Model
from segue.models.scripted import Scripted
from segue.models.weights import find_weights, weights_name
from segue.settings import Settings, environment


class Choice(msgspec.Struct, frozen=True):
    spec: str
    """`dialect:model`"""
    why: str
    """Where it comes from, for people."""


class Available(msgspec.Struct, frozen=True):
    """One line of `segue models`."""

    dialect: str
    usable: bool
    why: str
    """What makes it usable, or what is missing."""
    fix: str = ""
    """What to do when it is not usable: a command or a variable to set."""


class Provider(msgspec.Struct, frozen=True):
    """A provider that is reached over the network with a key."""

    dialect: str
    package: str
    key: str
    base_url: str
    default_model: str
    maker: str
    """`module:class` in this package; called with (model, key, base_url)."""


PROVIDERS = [
    Provider("openai", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-5-mini", "openai:OpenAIModel"),
    Provider(
        "anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "claude-sonnet-5-5",
        "anthropic:AnthropicModel",
    ),
]  # fmt: skip
BY_DIALECT = {provider.dialect: provider for provider in PROVIDERS}
DIALECTS = ["local", "openai", "anthropic", "scripted"]
ENGINE = "xllamacpp"


def choose(explicit: str | None, settings: Settings) -> Choice | None:
    """The model to use and why, or None when nothing names or offers one. Loads nothing."""
    if explicit:
        return Choice(explicit, "the argument")
    if settings.model:
        return Choice(settings.model, settings.model_from)
    with_key = [provider for provider in PROVIDERS if environment(provider.key)]
    for provider in with_key:
        if _installed(provider.package):
            return _default(provider)
    weights = find_weights(settings) if _installed(ENGINE) else None
    if weights is not None:
        return Choice(f"local:{weights_name(weights)}", f"the local model in {weights.parent}")
    return _default(with_key[0]) if with_key else None


def load(spec: str, settings: Settings) -> Model:
    """The model of `dialect:model`, or a dialect alone for its default. Reaches nothing and loads no weights
    yet.

    Raises `UsageError` for an unknown dialect or a script that cannot be read, `MissingExtra` naming the pip
    command, `NoModel` for a missing key or missing weights.
    """
    dialect, _, name = spec.partition(":")
    if dialect == "scripted":
        if not name:
            raise UsageError("scripted needs a file: scripted:answers.json")
        return Scripted.from_file(Path(name).expanduser(), spec)
    if dialect == "local":
        return _load_local(name, settings)
    if dialect in BY_DIALECT:
        return _load_provider(BY_DIALECT[dialect], name)
    raise UsageError(_unknown(spec))


def available(settings: Settings) -> list[Available]:
    """Each provider: can it be used here, why (not), and what to do about it."""
    return [_local_available(settings), *map(_provider_available, PROVIDERS), _scripted_available()]


def _default(provider: Provider) -> Choice:
    return Choice(f"{provider.dialect}:{provider.default_model}", f"{provider.key} is set")


def _load_local(name: str, settings: Settings) -> Model:
    path = find_weights(settings, name)
    if path is None:
        missing = f"no weights {name!r} for a local model" if name else "no weights of a local model"
        raise NoModel(
            f"{missing}: `segue models add local` fetches a small one into {settings.models};"
            " any GGUF file works: local:/path/to/file.gguf"
        )
    _require("local", ENGINE)
    return _make("local:LocalModel", path, name)


def _load_provider(provider: Provider, name: str) -> Model:
    _require(provider.dialect, provider.package)
    key, base_url = environment(provider.key), environment(provider.base_url)
    if not key and not base_url:
        raise NoModel(
            f"{provider.key} is not set: {provider.dialect} needs it,"
            f" or {provider.base_url} for a server without keys"
        )
    return _make(provider.maker, name or provider.default_model, key or "none", base_url or None)


def _make(maker: str, *arguments: Any) -> Model:
    """Adapters are imported when they are first used: their packages take a second each."""
    module, _, name = maker.partition(":")
    made: Model = getattr(importlib.import_module(f"segue.models.{module}"), name)(*arguments)
    return made


def _require(dialect: str, package: str) -> None:
    if not _installed(package):
        raise MissingExtra(f"{dialect} needs the package {package}: {_extra(dialect)}")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _extra(dialect: str) -> str:
    return f"pip install 'segue[{dialect}]'"


def _unknown(spec: str) -> str:
    dialect = spec.partition(":")[0]
    close = difflib.get_close_matches(dialect, DIALECTS, n=1, cutoff=0.5)
    meant = ""
    if spec.startswith(("gpt", "o1", "o3", "o4")):
        meant = f"Did you mean openai:{spec}? "
    elif spec.startswith("claude"):
        meant = f"Did you mean anthropic:{spec}? "
    elif spec.endswith(".gguf"):
        meant = f"Did you mean local:{spec}? "
    elif close:
        meant = f"Did you mean {close[0]}{spec[len(dialect) :]}? "
    known = ", ".join(DIALECTS)
    return (
        f"no provider {dialect!r} in the model {spec!r}. {meant}Models are named dialect:model, with {known}"
    )


def _local_available(settings: Settings) -> Available:
    weights = find_weights(settings)
    if not _installed(ENGINE):
        fix = _extra("local") + ("" if weights else ", then segue models add local")
        return Available("local", False, f"the package {ENGINE} is not installed", fix)
    if weights is None:
        return Available("local", False, f"no weights in {settings.models}", "segue models add local")
    return Available("local", True, f"{weights_name(weights)} in {weights.parent}")


def _provider_available(provider: Provider) -> Available:
    key = next((name for name in (provider.key, provider.base_url) if environment(name)), "")
    if not _installed(provider.package):
        set_too = "" if key else f", and set {provider.key}"
        why = f"the package {provider.package} is not installed" + (f", though {key} is set" if key else "")
        return Available(provider.dialect, False, why, _extra(provider.dialect) + set_too)
    if not key:
        return Available(provider.dialect, False, f"{provider.key} is not set", f"set {provider.key}")
    return Available(provider.dialect, True, f"{key} is set")


def _scripted_available() -> Available:
    return Available("scripted", True, "answers from a file: scripted:FILE")
