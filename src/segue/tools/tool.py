"""Tools: functions that a model may call. `@tool` declares one; `as_tool` makes one of any suitable callable."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

import msgspec

from segue.errors import DefinitionError
from segue.tools.arguments import arguments_of, misfit
from segue.typed.annotations import Unresolved, function_of
from segue.typed.docstrings import documented
from segue.typed.forms import Misfits, Record
from segue.typed.schemas import Definitions
from segue.typed.signature import Signature

P = ParamSpec("P")
R = TypeVar("R")

INJECTED = ("runtime", "idempotency_key")
"""Parameters that Segue fills in: the runtime, and a key that stays the same when a call is tried again."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    description: str | None = None
    needs_approval: bool | Callable[[dict[str, Any]], object] = False
    idempotent: bool = False
    timeout: float | None = None


class Tool(Generic[P, R]):
    """A function that a model may call. Call it like the function it wraps.

    What it tells the model comes from the signature and the docstring, and is checked when the tool is declared; only
    an annotation that does not resolve yet is looked up again when the tool is first used.
    """

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        named = _named(function)
        functools.update_wrapper(self, named, updated=())
        self.__wrapped__ = self.function = function
        self.options = options
        self.origin = f"{named.__module__}:{named.__qualname__}"
        """Where the function is: `module:qualified.name`."""
        self.name = _checked_name(options.name if options.name is not None else named.__name__, self.origin)
        self.is_async = _is_async(function)
        self._doc = documented(_doc_of(function, named))
        self.description = self._doc.text if options.description is None else options.description
        self._of_instance = _is_unbound(function)
        self._parameters: _Parameters | None = None
        with contextlib.suppress(Unresolved):  # a name that comes later in its module: looked up again on use
            self._parameters = self._read_parameters()

    @property
    def idempotent(self) -> bool:
        """Whether running it twice with the same arguments does no more than running it once."""
        return self.options.idempotent

    @property
    def timeout(self) -> float | None:
        """Seconds that one run may take; None is no limit."""
        return self.options.timeout

    @property
    def injected(self) -> frozenset[str]:
        """Names of the parameters that Segue fills in. They are no part of the schema."""
        return self._ready().injected

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments: an object."""
        definitions = Definitions()
        return definitions.finish(self._ready().record.body(definitions))

    def definition(self) -> dict[str, Any]:
        """What a provider is told: `{type: function, function: {name, description, parameters}}`."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def bind(self, arguments: str) -> dict[str, Any]:
        """The keyword arguments that a model's argument text stands for, typed, defaults included.

        Empty and blank text and `null` are no arguments. Raises `InvalidArguments`, and nothing else, for text that
        is not the JSON object that the schema describes; it says everything that is wrong, for the model to correct.
        """
        ready = self._ready()
        try:
            given = ready.record.convert(arguments_of(self.name, arguments), "")
        except Misfits as misfits:
            raise misfit(self.name, misfits.lines) from misfits
        return {
            field.name: given[field.name] if field.name in given else ready.defaults[field.name]
            for field in ready.record.fields
        }

    def gated(self, arguments: dict[str, Any]) -> bool:
        """Whether a call with these bound arguments needs an approval. A predicate that raises means that it does."""
        mark = self.options.needs_approval
        if not callable(mark):
            return mark
        try:
            return bool(mark({**self._ready().fixed, **arguments}))
        except Exception:  # whatever a predicate does, an approval is not skipped by mistake
            return True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not hasattr(self.function, "__get__"):
            return self
        bound = copy.copy(self)
        bound.__wrapped__ = bound.function = self.function.__get__(instance, owner)
        bound._of_instance = False
        if not self._of_instance:  # its first parameter was taken for one of the author's
            bound._parameters = None
        return bound

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.origin})>"

    def _ready(self) -> _Parameters:
        if self._of_instance:
            raise DefinitionError(
                f"{self.origin} is a method without its instance: give the tool of one, as in object.{self.name}"
            )
        if self._parameters is None:
            try:
                self._parameters = self._read_parameters()
            except Unresolved as error:
                raise DefinitionError(str(error)) from error
        return self._parameters

    def _read_parameters(self) -> _Parameters:
        signature = Signature(self.function, self.origin)
        fixed = _fixed(self.function, self.origin)
        names = list(signature.inspected.parameters)
        without = {*fixed, *INJECTED, *(names[:1] if self._of_instance else [])}
        return _Parameters(
            record=signature.record(self._doc, without=without),
            defaults={name: parameter.default for name, parameter in signature.inspected.parameters.items()},
            injected=frozenset(name for name in INJECTED if name in names and name not in fixed),
            fixed={name: value for name, value in fixed.items() if name not in INJECTED},
        )


class _Parameters(msgspec.Struct, frozen=True):
    record: Record
    defaults: dict[str, Any]
    injected: frozenset[str]
    fixed: dict[str, Any]
    """Arguments that a functools.partial has filled in."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool | Callable[[dict[str, Any]], object] = False,
    idempotent: bool = False,
    timeout: float | None = None,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool | Callable[[dict[str, Any]], object] = False,
    idempotent: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Declare a tool: `@tool`, or `@tool(needs_approval=True)`. For functions, coroutine functions and methods.

    `name` and `description` are what the model is told, instead of the function's name and docstring.
    `needs_approval` is True, or a function of the bound arguments (a dict) that says whether this call needs one.
    `idempotent` says that a second run with the same arguments does no harm. `timeout` is in seconds.

    Raises `DefinitionError` at once for an option or a parameter that cannot work.
    """
    chosen = _options(**options)
    if function is None:
        return lambda decorated: _declared(decorated, chosen)
    return _declared(function, chosen)


def as_tool(value: Any) -> Tool[..., Any]:
    """The tool itself, or one of a function, a bound method, a functools.partial, an object with `__call__`, or an
    agentic function.

    Raises `DefinitionError` saying what is wrong and how to mend it.
    """
    made = value if isinstance(value, Tool) else _inherited(value) or _declared(value, Options())
    made._ready()
    return made


def toolset(values: Iterable[Any]) -> dict[str, Tool[..., Any]]:
    """The tools by name. Raises `DefinitionError` for two of one name, and for what `as_tool` refuses."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DefinitionError(f"tools is a list of functions or tools, not {values!r:.100}")
    made: dict[str, Tool[..., Any]] = {}
    for value in values:
        one = as_tool(value)
        if one.name in made:
            raise DefinitionError(
                f"two tools have the name {one.name!r}: {made[one.name].origin} and {one.origin}. Declare one of them"
                " with another: tool(function, name=...)"
            )
        made[one.name] = one
    return made


def _inherited(value: Any) -> Tool[..., Any] | None:
    """A partial or a bound method of a tool keeps the tool's options: an approval is not lost on the way."""
    inner = value
    while isinstance(inner, functools.partial):
        inner = inner.func
    if isinstance(inner, types.MethodType) and isinstance(inner.__func__, Tool):
        inner = inner.__func__
    return _declared(value, inner.options) if isinstance(inner, Tool) else None


def _options(**given: Any) -> Options:
    try:
        chosen = Options(**given)
    except TypeError as error:
        names = ", ".join(Options.__struct_fields__)
        raise DefinitionError(f"tool takes {names}: {error}") from error
    for name in ("name", "description"):
        if not isinstance(given.get(name), str | None):
            _refuse("tool", f"{name}={given[name]!r} is not text")
    if not isinstance(chosen.needs_approval, bool) and not callable(chosen.needs_approval):
        _refuse(
            "tool",
            f"needs_approval={chosen.needs_approval!r} is neither a bool nor a function of the arguments",
        )
    if inspect.iscoroutinefunction(chosen.needs_approval):
        _refuse("tool", "needs_approval is a coroutine function: make it a plain one")
    if not isinstance(chosen.idempotent, bool):
        _refuse("tool", f"idempotent={chosen.idempotent!r} is not a bool")
    seconds = chosen.timeout
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < math.inf):
        _refuse("tool", f"timeout={seconds!r} is not a number of seconds over 0")
    return chosen


def _declared(function: Any, options: Options) -> Tool[..., Any]:
    if isinstance(function, (classmethod, staticmethod)):
        _refuse(function.__func__, f"put @{type(function).__name__} above @tool, not below it")
    if isinstance(function, type) or not callable(function):
        _refuse(function, "a tool is a function, a method, or an object that can be called")
    plain = function_of(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        _refuse(function, "a generator cannot be a tool: a call has one result")
    return Tool(function, options)


def _refuse(value: Any, why: str) -> NoReturn:
    name = value if isinstance(value, str) else getattr(value, "__qualname__", f"{value!r:.100}")
    raise DefinitionError(f"{name}: {why}")


def _checked_name(name: str, origin: str) -> str:
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{origin}: {name!r} cannot be a tool's name: providers take 1 to 64 of A-Z a-z 0-9 _ -. Declare it with"
            " tool(function, name=...)"
        )
    return name


def _named(function: Any) -> Any:
    """What has the name: the function in a partial; of an object with `__call__`, its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def _doc_of(function: Any, named: Any) -> str | None:
    if isinstance(named, type):
        return getattr(named.__call__, "__doc__", None) or named.__doc__
    return inspect.getdoc(named)


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 the method itself is looked at
    return (
        inspect.iscoroutinefunction(function)
        or inspect.iscoroutinefunction(called)
        or getattr(function, "is_async", False) is True
    )


def _is_unbound(function: Any) -> bool:
    """A function in a class body that takes its instance first."""
    plain = function_of(function)
    if plain is None or isinstance(function, (functools.partial, types.MethodType)):
        return False
    around = plain.__qualname__.rpartition(".")[0]
    if not around or around.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") in ("self", "cls")


def _fixed(function: Any, origin: str) -> dict[str, Any]:
    """The arguments that a partial fills in, by parameter."""
    if not isinstance(function, functools.partial):
        return {}
    inner = _fixed(function.func, origin)
    try:
        bound = inspect.signature(function.func).bind_partial(*function.args, **function.keywords)
    except TypeError as error:
        raise DefinitionError(f"{origin}: the partial does not fit its function: {error}") from error
    return {**inner, **bound.arguments}
