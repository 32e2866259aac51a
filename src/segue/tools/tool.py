"""Tools: functions that a model may call. `@tool` declares one; `as_tool` makes one of any suitable callable."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

import msgspec

from segue.errors import DefinitionError
from segue.events.json_values import json_or_reason
from segue.tools.arguments import arguments_of, misfit
from segue.tools.callables import doc_of, fixed_arguments, is_async, is_unbound, naming
from segue.tools.digest import digest_of, function_marks
from segue.tools.options import Options, checked_name, options_of
from segue.typed.annotations import Unresolved, function_of
from segue.typed.docstrings import documented
from segue.typed.forms import Misfits, converted
from segue.typed.records import Record
from segue.typed.schemas import Definitions
from segue.typed.signature import Signature

P = ParamSpec("P")
R = TypeVar("R")

INJECTED = ("runtime", "idempotency_key")
"""Parameters that Segue fills in: the runtime, and a key that stays the same when a call is tried again."""


DECLARED: set[str] = set()
"""Names of all tools of this process so far: what an approval policy can name."""


class Tool(Generic[P, R]):
    """A function that a model may call. Call it like the function it wraps.

    What it tells the model comes from the signature and the docstring, and is checked when the tool is declared; only
    an annotation that does not resolve yet is looked up again when the tool is first used.
    """

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        holder = naming(function)
        functools.update_wrapper(self, holder, updated=())
        self.__wrapped__ = self.function = function
        self.options = options
        self.origin = f"{holder.__module__}:{holder.__qualname__}"
        """Where the function is: `module:qualified.name`."""
        self.name = checked_name(options.name if options.name is not None else holder.__name__, self.origin)
        DECLARED.add(self.name)
        self.is_async = is_async(function)
        self._doc = documented(doc_of(holder))
        self.description = self._doc.text if options.description is None else options.description
        self._of_instance = is_unbound(function)
        self._parameters: _Parameters | None = None
        with contextlib.suppress(Unresolved):  # a name that comes later in its module: looked up again on use
            self._parameters = self._read_parameters()

    @property
    def idempotent(self) -> bool:
        """Whether a call of unknown outcome may be run again. One of an agentic function may: its own finished steps
        are then answered from the record."""
        return self.options.idempotent or getattr(self.function, "is_replayed", False) is True

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
            given = converted(ready.record, arguments_of(self.name, arguments))
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

    def declaration(self) -> str:
        """A digest of what the tool is declared to be: where it is, what the model is told, defaults and fixed
        arguments, and its mark. A rule that somebody set for it is one for this declaration only."""
        ready = self._ready()
        mark = self.options.needs_approval
        given = {
            name: value for name, value in ready.defaults.items() if value is not inspect.Parameter.empty
        }
        values = {name: json_or_reason(value) for name, value in {**given, **ready.fixed}.items()}
        return digest_of(
            self.origin, [self.definition(), values, function_marks(mark) if callable(mark) else mark]
        )

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
        fixed = fixed_arguments(self.function, self.origin)
        signature = Signature(self.function, self.origin)
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
    chosen = options_of(**options)
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
