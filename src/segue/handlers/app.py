"""AgentApp: handlers under their routes, and the tools that they may execute."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from segue.errors import DefinitionError, UsageError
from segue.tools.tool import Tool, toolset

if TYPE_CHECKING:
    from segue.events.facts import Event
    from segue.handlers.context import SessionContext

Handler = Callable[["SessionContext"], "AsyncIterator[Event]"]
H = TypeVar("H", bound=Callable[..., Any])


class AgentApp:
    """`tools` are functions or `segue.tool`s, by name what `ctx.execute` runs. Raises `DefinitionError` for one that
    cannot be a tool."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self.tools: dict[str, Tool[..., Any]] = toolset(tools)
        self.handlers: dict[str, Handler] = {}
        """By route."""

    def agent_route(self, path: str) -> Callable[[H], H]:
        """`@app.agent_route("/path")`: the handler of that route. The decorated handler stays what it was.

        Raises `DefinitionError` for a path without its leading slash, a second handler of one route, and what is no
        asynchronous generator function of one argument.
        """
        if not (isinstance(path, str) and path.startswith("/")):
            raise DefinitionError(f"a route begins with a slash: {path!r}")
        if path in self.handlers:
            raise DefinitionError(f"the route {path} has a handler already: {self.handlers[path]!r}")

        def route(handler: H) -> H:
            self.handlers[path] = checked(handler)
            return handler

        return route

    def route(self, path: str | None = None) -> str:
        """The path itself; for None the route `/`, or the only one. Raises `UsageError` when there is no such route."""
        if path is None:
            path = next(iter(self.handlers)) if len(self.handlers) == 1 else "/"
        if path not in self.handlers:
            raise UsageError(
                f"there is no route {path}; the routes are: {', '.join(self.handlers) or 'none'}"
            )
        return path

    def __repr__(self) -> str:
        return f"<AgentApp {', '.join(self.handlers)}>"


def as_app(value: Any) -> AgentApp:
    """The app itself, or one that has a handler as its only route, `/`. Raises `DefinitionError`."""
    if isinstance(value, AgentApp):
        return value
    app = AgentApp()
    app.agent_route("/")(value)
    return app


def is_app(value: Any) -> bool:
    """Whether `as_app` takes it."""
    return isinstance(value, AgentApp) or _is_generator(value)


def checked(handler: Any) -> Handler:
    """Raises `DefinitionError` for what is no handler."""
    name = getattr(handler, "__qualname__", repr(handler))
    if not _is_generator(handler):
        raise DefinitionError(
            f"{name} is no handler: write `async def {name}(ctx):` with a `yield` of events inside"
        )
    try:
        inspect.signature(handler).bind(None)
    except TypeError as error:
        raise DefinitionError(f"{name} is no handler: it is called with one argument, the context") from error
    return handler  # type: ignore[no-any-return]


def _is_generator(value: Any) -> bool:
    while isinstance(value, functools.partial):
        value = value.func
    if not inspect.isroutine(value):
        value = getattr(type(value), "__call__", None)  # noqa: B004 - whether it is a generator, not whether it is there
    return inspect.isasyncgenfunction(value)


async def closed(events: AsyncIterator[Any]) -> None:
    """Close a handler's generator now, not when it is collected."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()
