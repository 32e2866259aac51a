"""chat_agent: the ready-made handler. It talks with a model, and runs the tools that the model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Unpack

from segue.errors import NoModel, StepLimit, UsageError
from segue.events.facts import Event, NoMoreActions
from segue.fold.conversation import Conversation
from segue.handlers.context import SessionContext
from segue.models.protocol import Model, ToolCallChunk
from segue.session import background
from segue.session.ambient import current_runtime, require_writer
from segue.session.budget import Budget
from segue.session.prompt import Message, Prompt
from segue.session.runtime import NO_MODEL, ExecOptions, Runtime, create_runtime
from segue.session.sending import Options, Sender
from segue.session.steering import delivered
from segue.session.tool_calls import ToolCalls
from segue.session.turn import Turn
from segue.tools.tool import Tool, toolset


def chat_agent(
    model: str | Model | None = None,
    *,
    tools: Iterable[Any] = (),
    instructions: str | Callable[[SessionContext], str] = "",
    steps: int = 20,
    budget: Budget | None = None,
    **options: Unpack[ExecOptions],
) -> ChatAgent:
    """A handler that answers with a model: its text and reasoning are the conversation's messages as they stream; the
    tool calls of one reply run together, gated ones suspend the turn; then the model is asked again, `steps` times in
    all at most.

    `model` is `dialect:name` or a model; without it the runtime's. `tools` are functions or `segue.tool`s; without them
    those of its app. `instructions` are the system message, or a function of the context that gives it, called once for
    each invocation. `budget` is what each of its turns may spend; of another one that the turn has, the smaller limits
    hold. `options` are those of `ExecOptions`, for each model call.

    Raises `DefinitionError` for a tool that cannot be one; a turn fails with the `ModelError`s, and with `StepLimit`.
    """
    if steps < 1:
        raise UsageError(f"steps={steps}: at least one is needed")
    return ChatAgent(model, toolset(tools), instructions, steps, budget, Options(**options))


class ChatAgent:
    """What `chat_agent` makes. What it does next is what the conversation says: run the calls that are open, ask the
    model, or end. So it goes on after an approval, or a crash, where it was."""

    def __init__(
        self,
        model: str | Model | None,
        tools: dict[str, Tool[..., Any]],
        instructions: str | Callable[[SessionContext], str],
        steps: int,
        budget: Budget | None,
        options: Options,
    ) -> None:
        self.model, self.tools, self.instructions = model, tools, instructions
        self.steps, self.budget, self.options = steps, budget, options

    async def __call__(self, context: SessionContext) -> AsyncIterator[Event]:
        turn, tools = require_writer().turn, self.tools or context.tools
        turn.meter.limit(self.budget)
        runtime = self._runtime(turn)
        system = self.instructions if isinstance(self.instructions, str) else self.instructions(context)
        calls = ToolCalls(turn, "", tools, runtime, own_loop=True)
        asked = 0
        for left in range(self.steps, -1, -1):
            messages = await self._answered(turn, calls)
            if messages[-1]["role"] == "assistant" or len(messages) == asked:  # it said nothing at all
                yield NoMoreActions()
                return
            if left:
                asked = len(messages)
                await self._ask(turn, runtime, tools, system, messages)
        raise StepLimit(
            "the model still wanted to call tools after its last step: raise `steps`, or ask for less"
        )

    def __repr__(self) -> str:
        return f"<chat_agent {', '.join(self.tools)}>"

    def _runtime(self, turn: Turn) -> Runtime:
        if self.model is None:
            return current_runtime() or Runtime(None)
        runtime = create_runtime(self.model)
        assert runtime is not None, "a named model is one or raises"
        if isinstance(self.model, str):
            turn.on_end(runtime.close)
        return runtime

    async def _answered(self, turn: Turn, calls: ToolCalls) -> list[Message]:
        """The conversation, its open calls run, with what users sent meanwhile."""
        if made := open_calls(_conversation(turn)):
            await calls.answers("", made)
        await delivered(turn)
        return _conversation(turn)

    async def _ask(
        self,
        turn: Turn,
        runtime: Runtime,
        tools: dict[str, Tool[..., Any]],
        system: str,
        messages: list[Message],
    ) -> None:
        if runtime.model is None:
            raise NoModel(NO_MODEL)
        turn.check("")
        definitions = [tool.definition() for tool in tools.values()]
        sender = Sender(runtime.model, turn, "", self.options, tools=definitions, speaks=True)
        prompt = Prompt(system=system, history=messages[:-1], request=messages[-1:])
        await turn.to_its_end(background.start(sender.send(prompt, {})))


def open_calls(messages: list[Message]) -> list[ToolCallChunk]:
    """The calls at the end of a conversation that have no result, in their order."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] != "tool":
            return [
                ToolCallChunk(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls", [])
                if call["id"] not in answered
            ]
        answered.add(message["tool_call_id"])
    return []


def _conversation(turn: Turn) -> list[Message]:
    with turn.journal.viewing(Conversation) as conversation:
        return conversation.messages()
