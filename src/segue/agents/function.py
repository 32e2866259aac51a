"""Functions whose docstring is the prompt: `@agentic_function`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

import msgspec

from segue.agents.call import Call
from segue.agents.options import Options, options
from segue.errors import DefinitionError, NoSession
from segue.session.ambient import NO_SESSION, current_writer, in_main_thread, require_not_left_over
from segue.session.budget import Budget
from segue.session.context import session_context
from segue.session.replay import key_of
from segue.session.restored import NO_RESULT
from segue.session.runtime import Runtime
from segue.typed.forms import Form
from segue.typed.signature import INJECTED, Signature, returned_form

P = ParamSpec("P")
R = TypeVar("R")


class Run(msgspec.Struct, frozen=True):
    """What `fn.run` gives: the value, and the id to continue with."""

    value: Any
    session_id: str
    turn_id: str


class AgenticFunction(Generic[P, R]):
    """An agentic function. Call it like the function it wraps; inside a `session_context` the call is recorded.

    Outside any session the outermost call opens an ad-hoc one and says its id once on stderr; in a thread that is
    not the main one it raises `NoSession` instead. Calls nested deeper than 64 raise `RecursionLimit`.
    """

    is_replayed = True
    """Called again after a crash it does nothing twice: its finished steps are answered from the record."""

    def __init__(self, function: Callable[P, R], chosen: Options) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, chosen
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.doc = inspect.getdoc(function) or ""
        self.signature = Signature(function, self.name)
        self.is_async = inspect.iscoroutinefunction(function)

    @functools.cached_property
    def returned(self) -> Form | None:
        """The form of what it returns: a recorded result is only used as a value of it."""
        return returned_form(self.function)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundMethod(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(args, kwargs, bound_method=False)  # type: ignore[no-any-return]

    def run(
        self,
        *args: Any,
        session_id: str | None = None,
        runtime: Runtime | None = None,
        source: str = "code",
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call in a session of its own turn: `Run(value, session_id, turn_id)`, awaitable for an async function.

        `session_id` continues that session (or creates it under that id); None makes a new one. `budget` is what the
        turn may spend.
        """
        opened = session_context(session_id, runtime=runtime, source=source, budget=budget)
        opened.purpose = lambda: self.asked(args, kwargs)
        return run_in(opened, lambda: self(*args, **kwargs), is_async=self.is_async)

    def asked(self, args: Any, kwargs: Any, *, bound_method: bool = False) -> str:
        """The same for equal calls. Raises as a call does for arguments that do not fit."""
        bound = self.signature.bind(args, kwargs)
        return key_of("function", self.name, self.signature.arguments(bound, bound_method=bound_method))

    def _call(self, args: Any, kwargs: Any, *, bound_method: bool) -> Any:
        bound = self.signature.bind(args, kwargs)
        call = _call_async if self.is_async else _call_sync
        return call(self, bound, bound_method)

    def begin(self, bound: inspect.BoundArguments, bound_method: bool) -> Call:
        """The call's record, not yet written. Fills in the runtime that the function asks for."""
        writer = current_writer()
        assert writer is not None, "the caller opens an ad-hoc session"
        given = bound.arguments.get(INJECTED)
        call = Call(
            writer.turn,
            name=self.name,
            doc=self.doc,
            arguments=self.signature.arguments(bound, bound_method=bound_method),
            options=self.options,
            runtime=given if isinstance(given, Runtime) else None,
        )
        if self.signature.takes_runtime and given is None:
            bound.arguments[INJECTED] = call.ambient_runtime()
        return call


class BoundMethod:
    """An agentic method of an instance: the instance is an argument, but not one of the author's."""

    is_replayed = True

    def __init__(self, function: AgenticFunction[Any, Any], instance: Any) -> None:
        functools.update_wrapper(self, function)
        self.__signature__ = function.signature.of_method()
        self._function, self._instance = function, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function._call((self._instance, *args), kwargs, bound_method=True)

    def run(
        self,
        *args: Any,
        session_id: str | None = None,
        runtime: Runtime | None = None,
        source: str = "code",
        budget: Budget | None = None,
        **kwargs: Any,
    ) -> Any:
        """Like `AgenticFunction.run`."""
        opened = session_context(session_id, runtime=runtime, source=source, budget=budget)
        opened.purpose = lambda: self._function.asked((self._instance, *args), kwargs, bound_method=True)
        return run_in(opened, lambda: self(*args, **kwargs), is_async=self._function.is_async)


def run_in(opened: session_context, call: Callable[[], Any], *, is_async: bool) -> Any:
    """The call in a turn of its own: a `Run`, awaitable for an async function."""
    return (_run_async if is_async else _run)(opened, call)


def _run(opened: session_context, call: Callable[[], Any]) -> Run:
    with opened as session:
        value = call()
    return Run(value, session.session_id, session.turn_id)


async def _run_async(opened: session_context, call: Callable[[], Any]) -> Run:
    async with opened as session:
        value = await call()
    return Run(value, session.session_id, session.turn_id)


def _call_sync(function: AgenticFunction[Any, Any], bound: inspect.BoundArguments, bound_method: bool) -> Any:
    if current_writer() is None:
        with _ad_hoc(function) as session:
            _announce(session.session_id)
            return _call_sync(function, bound, bound_method)
    call = function.begin(bound, bound_method)
    recorded = call.recorded_result(function.returned)
    if recorded is not NO_RESULT:
        return recorded
    with call:
        call.result = function.function(*bound.args, **bound.kwargs)
    return call.result


async def _call_async(
    function: AgenticFunction[Any, Any], bound: inspect.BoundArguments, bound_method: bool
) -> Any:
    if current_writer() is None:
        async with _ad_hoc(function) as session:
            _announce(session.session_id)
            return await _call_async(function, bound, bound_method)
    call = function.begin(bound, bound_method)
    recorded = call.recorded_result(function.returned)
    if recorded is not NO_RESULT:
        return recorded
    async with call:
        call.result = await function.function(*bound.args, **bound.kwargs)
    return call.result


def _ad_hoc(function: AgenticFunction[Any, Any]) -> session_context:
    require_not_left_over()
    if not in_main_thread():
        raise NoSession(f"{function.name} was called in a thread without a session: {NO_SESSION}")
    return session_context()


def _announce(session_id: str) -> None:
    print(f"session: {session_id}", file=sys.stderr, flush=True)


@overload
def agentic_function(function: Callable[P, R], /) -> AgenticFunction[P, R]: ...
@overload
def agentic_function(
    *, expose: str = "io", render_range: Mapping[str, int | None] | None = None
) -> Callable[[Callable[P, R]], AgenticFunction[P, R]]: ...
def agentic_function(
    function: Any = None, /, *, expose: str = "io", render_range: Mapping[str, Any] | None = None
) -> Any:
    """Make a function agentic: its docstring and arguments are in the prompt of every model call made inside, and
    each call is a node of the session's graph. For functions, coroutine functions and methods.

    A parameter `runtime` is filled in. `expose` says what callers later see of the inside: `io` its arguments and
    result, `llm` its model calls, `full` both and all further in, `hidden` nothing. `render_range` says what the
    inside sees: `callers`, how many levels of callers (1; the level above a root call is the conversation), and
    `subcalls`, how many of its own earlier calls (all); None is no limit.

    Raises `DefinitionError` at once for an unknown option or a function that cannot be one.
    """
    chosen = options(expose, render_range)
    if function is None:
        return lambda decorated: AgenticFunction(_checked(decorated), chosen)
    return AgenticFunction(_checked(function), chosen)


def _checked(function: Any) -> Callable[..., Any]:
    if isinstance(function, (classmethod, staticmethod)):
        _refuse(function.__func__, f"put @{type(function).__name__} above @agentic_function, not below it")
    if not inspect.isfunction(function):
        _refuse(function, "agentic_function decorates a function or a coroutine function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(function, "a generator cannot be an agentic function: its call has one result")
    return function


def _refuse(function: Any, why: str) -> NoReturn:
    raise DefinitionError(f"{getattr(function, '__qualname__', repr(function))}: {why}")
