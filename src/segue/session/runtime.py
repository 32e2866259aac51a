"""Runtime: what an agentic function reaches a model with. `runtime.exec(...)` is one or more recorded model calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypedDict, Unpack

from segue.errors import InvalidReply, NoModel, StepLimit, UsageError
from segue.models import selection
from segue.models.protocol import Model
from segue.session import background
from segue.session.ambient import current_call_id, require_writer
from segue.session.exchange import bare_exchange
from segue.session.model_call import ModelCall
from segue.session.reply import Wanted, wanted_form
from segue.session.sending import Options, Reply
from segue.session.tool_calls import ToolCalls
from segue.settings import load_settings
from segue.tools.tool import Tool, toolset

NO_MODEL = (
    "no model is configured. For a small local one that needs no key: `pip install 'segue[local]'` and"
    " `segue models add local`. Or set SEGUE_MODEL, or OPENAI_API_KEY or ANTHROPIC_API_KEY with"
    " `pip install 'segue[openai]'` or `'segue[anthropic]'`. `segue models` shows what is there."
)


class ExecOptions(TypedDict, total=False):
    """How a model is called. The defaults are those of `segue.session.sending.Options`."""

    on_text: Callable[[str], None] | None
    """Called with each piece of text as it streams, from another thread."""
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    stop: Sequence[str]
    retries: int
    """How often a failure that may pass is tried again, with growing pauses or the one the provider asks for."""
    timeout: float | None
    """Seconds for everything together, retries and asking again included."""


class Runtime:
    """One model, and how it is called. Safe to share between threads, tasks and nested contexts.

    `model` None is a runtime without a model: its first call raises `NoModel` with what to install.
    """

    def __init__(self, model: Model | None) -> None:
        self.model = model

    def exec(
        self,
        content: str | list[dict[str, Any]],
        *,
        choices: Sequence[str] | None = None,
        schema: Any = None,
        tools: Sequence[Any] = (),
        attempts: int = 3,
        steps: int = 20,
        **options: Unpack[ExecOptions],
    ) -> Any:
        """Ask the model and return its reply: text, one of `choices`, or a value of `schema`.

        `content` is text or a list of content parts. The docstring and arguments of the enclosing agentic call, and
        what its `render_range` lets it see, go before it. `schema` is a type (any that a tool's parameter
        can have) or a JSON schema as a dict. A reply that does not fit is asked for again, `attempts` times in
        all. `options` are those of `ExecOptions`.

        `tools` are functions, agentic functions or `segue.tool`s that the model may call, none by default. The calls
        of one reply run together, sync ones each in a thread of its own; what fails is told to the model. The model is
        called `steps` times at most.

        Raises `NoModel`, `InvalidReply`, `StepLimit`, `ModelTimeout` and the other `ModelError`s, `DefinitionError` for
        a tool that cannot be described, `NoSession`, `TurnEnded`, `StorageError`; the signal `Suspended` when a call
        needs an approval. In a coroutine use `aexec`.
        """
        asking = _Exec(
            content, wanted_form(choices, schema), toolset(tools), attempts, steps, Options(**options)
        )
        return background.run(self._ask(asking, own_loop=False))

    async def aexec(
        self,
        content: str | list[dict[str, Any]],
        *,
        choices: Sequence[str] | None = None,
        schema: Any = None,
        tools: Sequence[Any] = (),
        attempts: int = 3,
        steps: int = 20,
        **options: Unpack[ExecOptions],
    ) -> Any:
        """`exec` for coroutines; async tools run on this loop. Cancelling it closes the provider's stream."""
        asking = _Exec(
            content, wanted_form(choices, schema), toolset(tools), attempts, steps, Options(**options)
        )
        return await self._ask(asking, own_loop=True)

    async def _ask(self, asking: _Exec, *, own_loop: bool) -> Any:
        if self.model is None:
            raise NoModel(NO_MODEL)
        writer, caller = require_writer(), current_call_id()
        definitions = [tool.definition() for tool in asking.tools.values()]
        call = await asyncio.to_thread(
            ModelCall, self.model, writer, caller, asking.wanted, asking.options, definitions
        )
        tool_calls = ToolCalls(call.turn, caller, asking.tools, self, own_loop=own_loop)
        recorded = call.recorded(asking.first)
        async with bare_exchange(call.turn, call.caller, asking.content, recorded) as exchange:
            exchange.result = await asking.answered(call, tool_calls)
        return exchange.result

    async def aclose(self) -> None:
        if self.model is not None:
            await self.model.aclose()

    def close(self) -> None:
        """Free the model's connections. Idempotent."""
        background.run(self.aclose())


class _Exec:
    """What one `exec` asks, and how often."""

    def __init__(
        self,
        content: Any,
        wanted: Wanted,
        tools: dict[str, Tool[..., Any]],
        attempts: int,
        steps: int,
        options: Options,
    ) -> None:
        for name, count in (("attempts", attempts), ("steps", steps)):
            if count < 1:
                raise UsageError(f"{name}={count}: at least one is needed")
        self.content, self.wanted, self.tools, self.options = content, wanted, tools, options
        self.first = _with(content, wanted.ask)
        """What the first request says."""
        self._attempts, self._steps = attempts, steps

    async def answered(self, call: ModelCall, tool_calls: ToolCalls) -> Any:
        """The value of the first reply that is an answer and fits."""
        content = self.first
        for left in range(self._attempts - 1, -1, -1):
            text = await self._text(call, tool_calls, content)
            try:
                return self.wanted.parse(text)
            except InvalidReply:
                if left == 0:
                    raise
            content = self.wanted.again
        raise AssertionError("unreachable")

    async def _text(self, call: ModelCall, tool_calls: ToolCalls, content: Any) -> str:
        """Ask, and run what tools the model calls, until it answers with none."""
        reply = await self._taken(call, call.ask(content))
        while reply.calls:
            reply = await self._taken(call, call.go_on(await tool_calls.run(reply)))
        return reply.text

    async def _taken(self, call: ModelCall, sending: Coroutine[Any, Any, Reply]) -> Reply:
        """A step: the model's own loop sends it."""
        if self._steps == 0:
            sending.close()
            raise StepLimit(
                "the model still wanted to call tools after its last step: raise `steps`, or ask for less"
            )
        self._steps -= 1
        return await call.turn.to_its_end(background.start(sending))


class RuntimeSlot:
    """A turn's runtime, made when it is first asked for: looking at a session loads no model."""

    def __init__(self, runtime: Runtime | None, *, create: bool) -> None:
        self._runtime, self._pending = runtime, create and runtime is None
        self._made: Runtime | None = None
        self._lock = threading.Lock()

    def resolve(self) -> Runtime | None:
        with self._lock:
            if self._pending:
                self._runtime = self._made = create_runtime()
                self._pending = False
            return self._runtime

    def close(self) -> None:
        """Close the runtime if this slot made it; one that was passed in belongs to its maker."""
        made, self._made = self._made, None
        if made is not None:
            made.close()


def create_runtime(model: str | Model | None = None) -> Runtime | None:
    """A runtime for `model` (`dialect:name`, or a model), or for the one that is configured: SEGUE_MODEL, the
    configuration file, a provider's key in the environment, the local model. None when there is none of these.

    Raises `UsageError` for an unknown dialect, `MissingExtra` naming the pip command, `NoModel` for missing weights.
    """
    if model is not None and not isinstance(model, str):
        return Runtime(model)
    settings = load_settings()
    choice = selection.choose(model, settings)
    return None if choice is None else Runtime(selection.load(choice.spec, settings))


def _with(content: Any, ask: str) -> Any:
    if not ask:
        return content
    return f"{content}\n\n{ask}" if isinstance(content, str) else [*content, {"type": "text", "text": ask}]
