"""What a tool can be made of, and what it then tells the model. Scenario B067: the kinds of callables."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from segue import agentic_function, session_context
from segue.errors import DefinitionError
from segue.fold.graph import CallGraph
from segue.session.db import SessionDB
from segue.tools.tool import Tool, as_tool, tool

if TYPE_CHECKING:
    from somewhere import Elsewhere  # type: ignore[import-not-found]

    from segue.session.runtime import Runtime


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


async def wait(a: int) -> int:
    return a


class Counter:
    """Counts."""

    def __init__(self, start: int) -> None:
        self.start = start

    def plain(self, q: int) -> int:
        """Count on."""
        return self.start + q

    @tool
    def marked(self, q: int) -> int:
        """Count on, as a tool."""
        return self.start + q

    @classmethod
    @tool
    def of_class(cls, q: int) -> str:
        return f"{cls.__name__} {q}"

    @staticmethod
    @tool
    def static(q: int) -> int:
        return q

    @tool
    async def later(this, q: int) -> int:
        return this.start + q

    @tool
    @agentic_function
    def agentic_tool(self, q: int, runtime: Any = None) -> int:
        """Ask."""
        return self.start + q

    @agentic_function
    def agentic(self, q: int, runtime: Any = None) -> int:
        """Ask."""
        return self.start + q

    async def __call__(self, q: int) -> int:
        """Count when called."""
        return self.start + q


class Silent:
    """An object without words of its own call."""

    def __call__(self, q: int) -> int:
        return q


@agentic_function
def ask(topic: str, runtime: Runtime | None = None) -> str:
    """Say something about the topic.

    :param topic: what about
    """
    return f"about {topic}"


@agentic_function
async def ask_later(topic: str) -> str:
    return topic


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@logged
def wrapped(q: int) -> int:
    """Behind a decorator."""
    return q


def value_of(made: Tool[..., Any], arguments: str) -> Any:
    value = made(**made.bind(arguments))
    return asyncio.run(value) if inspect.iscoroutine(value) else value


counter = Counter(10)
Q = '{"q": "1"}'


@pytest.mark.parametrize(
    ("value", "name", "description", "properties", "arguments", "result"),
    [
        (add, "add", "Add two numbers.", ["a", "b"], '{"a": 1}', 3),
        (tool(add), "add", "Add two numbers.", ["a", "b"], '{"a": 1, "b": 5}', 6),
        (wait, "wait", "", ["a"], '{"a": 1}', 1),
        (counter.plain, "plain", "Count on.", ["q"], Q, 11),
        (counter.marked, "marked", "Count on, as a tool.", ["q"], Q, 11),
        (tool(counter.plain), "plain", "Count on.", ["q"], Q, 11),
        (counter.later, "later", "", ["q"], Q, 11),
        (Counter.of_class, "of_class", "", ["q"], Q, "Counter 1"),
        (Counter.static, "static", "", ["q"], Q, 1),
        (counter, "Counter", "Count when called.", ["q"], Q, 11),
        (Silent(), "Silent", "An object without words of its own call.", ["q"], Q, 1),
        (functools.partial(add, 4), "add", "Add two numbers.", ["b"], '{"b": 1}', 5),
        (functools.partial(add, b=4), "add", "Add two numbers.", ["a"], '{"a": 1}', 5),
        (functools.partial(functools.partial(add, b=4), 1), "add", "Add two numbers.", [], "", 5),
        (functools.partial(counter.plain, 4), "plain", "Count on.", [], "{}", 14),
        (functools.partial(counter.marked, q=4), "marked", "Count on, as a tool.", [], "{}", 14),
        (functools.partial(tool(add), 4), "add", "Add two numbers.", ["b"], "{}", 6),
        (wrapped, "wrapped", "Behind a decorator.", ["q"], Q, 1),
        (tool(lambda q: q * 2, name="twice"), "twice", "", ["q"], '{"q": "ab"}', "abab"),
    ],
    ids=lambda part: repr(part)[:50].partition(" at 0x")[0],
)
def test_a_tool_of_any_callable_tells_the_model_its_own_arguments_and_binds_them(
    value: Any, name: str, description: str, properties: list[str], arguments: str, result: Any
) -> None:
    made = as_tool(value)
    assert (made.name, made.description, list(made.parameters["properties"])) == (
        name,
        description,
        properties,
    )
    assert value_of(made, arguments) == result


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (add, False),
        (wait, True),
        (counter.plain, False),
        (counter.later, True),
        (counter, True),
        (Silent(), False),
        (functools.partial(wait, 1), True),
        (functools.partial(tool(wait), 1), True),
        (ask, False),
        (ask_later, True),
        (counter.agentic, False),
    ],
    ids=lambda part: repr(part)[:50].partition(" at 0x")[0],
)
def test_a_tool_says_whether_its_call_must_be_awaited(value: Any, expected: bool) -> None:
    assert as_tool(value).is_async is expected


def test_a_definition_has_the_shape_that_providers_take() -> None:
    assert as_tool(add).definition() == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "description": "the first"},
                    "b": {"type": "integer", "description": "the second", "default": 2},
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }


def test_a_tool_is_called_like_the_function_it_wraps() -> None:
    made = tool(add)
    assert (made(1), made(1, 3), made(a=1, b=4)) == (3, 4, 5)
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("add", add.__doc__, add)
    assert inspect.signature(made) == inspect.signature(add)
    assert counter.marked(1) == 11
    assert asyncio.run(counter.later(2)) == 12


def test_a_tool_stays_the_tool_that_it_is() -> None:
    made = tool(add, description="Sum.")
    assert as_tool(made) is made
    assert made.description == "Sum."


@pytest.mark.parametrize("agentic", [counter.agentic, counter.agentic_tool], ids=["as_tool", "@tool"])
def test_an_agentic_method_is_a_tool_and_its_call_is_recorded(agentic: Any, db: SessionDB) -> None:
    made = as_tool(agentic)
    assert (list(made.parameters["properties"]), made.injected) == (["q"], {"runtime"})
    with session_context("s"):
        assert made(**made.bind(Q)) == 11
    (call,) = db.journal("s").view(CallGraph).roots()
    assert (call.name, call.arguments, call.result) == (f"{__name__}:{agentic.__qualname__}", {"q": 1}, 11)


def test_an_agentic_function_is_a_tool_and_its_call_is_recorded(db: SessionDB) -> None:
    made = as_tool(ask)
    assert (made.name, made.description) == ("ask", "Say something about the topic.")
    assert made.parameters["properties"] == {"topic": {"type": "string", "description": "what about"}}
    with session_context("s"):
        assert made(**made.bind('{"topic": "tides"}')) == "about tides"
    (call,) = db.journal("s").view(CallGraph).roots()
    assert (call.name, call.arguments) == (f"{__name__}:ask", {"topic": "tides"})


def test_parameters_that_segue_fills_in_are_no_part_of_the_schema() -> None:
    def pay(amount: int, idempotency_key: str, runtime: Runtime) -> str:
        return f"{amount} {idempotency_key} {runtime}"

    made = as_tool(pay)
    assert (list(made.parameters["properties"]), made.injected) == (
        ["amount"],
        {"runtime", "idempotency_key"},
    )
    assert made(**made.bind('{"amount": 5}'), idempotency_key="k", runtime=None) == "5 k None"
    assert as_tool(functools.partial(pay, runtime=None)).injected == {"idempotency_key"}


def test_a_name_that_comes_later_is_looked_up_when_the_tool_is_used() -> None:
    @tool
    def move(to: Place) -> str:
        return to.name

    class Place(msgspec.Struct):
        name: str

    assert move(**move.bind('{"to": {"name": "here"}}')) == "here"


def generator(q: int) -> Any:
    yield q


async def async_generator(q: int) -> Any:
    yield q


def positional(a: int, /, b: int) -> int:
    return a + b


def many(*numbers: int) -> int:
    return sum(numbers)


def free(**options: int) -> int:
    return len(options)


def unknown(q: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Names what is not there."""


def checked_only(q: list[Elsewhere]) -> None:
    """Names what is imported for type checkers."""


def callback(then: Callable[[], None]) -> None:
    """Takes what is not JSON."""


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (positional, "positional: parameter 'a' is positional-only; give every argument a name"),
        (many, "many: parameter 'numbers' collects positional arguments"),
        (free, "free: parameter 'options' collects keyword arguments"),
        (len, "builtins:len: parameter 'obj' is positional-only"),
        (print, "parameter 'args' collects positional arguments"),
        (max, "builtins:max: its parameters are not known"),
        (generator, "generator: a generator cannot be a tool: a call has one result"),
        (async_generator, "async_generator: a generator cannot be a tool"),
        (functools.partial(generator, 1), "a generator cannot be a tool"),
        (functools.partial(add, 1, 2, 3), "the partial does not fit its function: too many positional"),
        (functools.partial(add, c=1), "the partial does not fit its function: got an unexpected keyword"),
        (Counter, "Counter: a tool is a function, a method, or an object that can be called"),
        ("add", "add: a tool is a function"),
        (None, "None: a tool is a function"),
        (
            Counter.plain,
            "Counter.plain is a method without its instance: give the tool of one, as in object.plain",
        ),
        (Counter.marked, "Counter.marked is a method without its instance"),
        (Counter.agentic, "Counter.agentic is a method without its instance"),
        (Counter.__dict__["of_class"], "of_class: put @classmethod above @tool, not below it"),
        (unknown, "parameter 'q': the annotation Nowhere does not resolve: name 'Nowhere' is not defined"),
        (
            checked_only,
            r"parameter 'q': the annotation list\[Elsewhere\] .* is it imported for type checkers only",
        ),
        (tool(checked_only), r"parameter 'q': the annotation list\[Elsewhere\] does not resolve"),
        (callback, r"callback: parameter 'then': .*Callable.* has no form in JSON"),
    ],
    ids=lambda part: repr(part)[:50].partition(" at 0x")[0],
)
def test_what_cannot_be_a_tool_is_refused_naming_what_is_wrong(value: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        as_tool(value)


def test_an_annotation_of_the_result_need_not_resolve() -> None:
    def find(q: int) -> Elsewhere:
        return q

    assert list(as_tool(find).parameters["properties"]) == ["q"]
