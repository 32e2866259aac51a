"""Random programs: agentic functions that call, gather, catch, swallow, ask, take steps and use tools; and handlers."""

from __future__ import annotations

import asyncio
import contextvars
import random
import re
from collections.abc import AsyncIterator
from typing import Any

from world import World, asked_at, current

from segue import events
from segue.agents.function import agentic_function
from segue.errors import BadModelRequest, ModelError, ModelUnavailable, ToolFailed
from segue.handlers.context import SessionContext
from segue.ids import new_id
from segue.models.protocol import Chunk, Finish, ModelRequest, TextChunk, ToolCallChunk
from segue.session.ambient import current_call_id, current_runtime
from segue.session.bind import bind
from segue.session.steps import step
from segue.session.waits import ask_user
from segue.tools.tool import tool

Op = tuple[str, Any]

_world: contextvars.ContextVar[tuple[World, dict[str, list[Op]]]] = contextvars.ContextVar("simulated_world")


PLAIN = ["exec", "exec", "tools", "tools", "ask", "step", "async_step", "flaky"]
NESTED = ["call", "gather", "group", "stream", "caught", "agent", "swallow", "swallow", "finally", "timed"]
IN_HANDLER = ["execute", "execute", "together", "call", "exec", "ask", "step", "say"]


class Maker:
    """Makes programs: parts by name. Every text in them is unique."""

    def __init__(self, chance: random.Random) -> None:
        self._random, self._count, self._timed = chance, 0, 0
        self.parts: dict[str, list[Op]] = {}

    def function(self) -> str:
        """An agentic function that does a part, `breaking` when it ends with a failure."""
        return self._part(self._label(), depth=0)

    def chat(self) -> str:
        """What a model makes of a message: rounds of tool calls."""
        name = self._label()
        self.parts[name] = []
        rounds = [self._calls(depth=1) for _ in range(self._random.randint(1, 3))]
        self.parts[name].append(("tools", (name, rounds)))
        return name

    def handler(self) -> str:
        name = self._label()
        self.parts[name] = []
        self.parts[name] += [self._in_handler() for _ in range(self._random.randint(1, 4))]
        return name

    def _part(self, name: str, depth: int) -> str:
        self.parts[name] = []  # in its place, before those inside it
        length = self._random.randint(1, 4 if depth == 0 else 3)
        self.parts[name] += [self._op(depth) for _ in range(length)]
        return name

    def _op(self, depth: int) -> Op:
        kind = self._random.choice(PLAIN + (NESTED if depth < 3 else []))
        if kind in ("swallow", "finally") and self._timed:  # then it would swallow that it is too late
            kind = "exec"
        label = self._label()
        if kind == "tools":
            rounds = [self._calls(depth) for _ in range(self._random.choice((1, 1, 2)))]
            return kind, (label, rounds)
        if kind in ("gather", "group", "stream"):
            return kind, [self._part(self._label(), depth + 1) for _ in range(self._random.randint(2, 3))]
        if kind in ("call", "caught", "agent", "timed"):
            self._timed += kind == "timed"
            inside = self._part(self._label(), depth + 1)
            self._timed -= kind == "timed"
            return kind, (label, inside)
        if kind in ("swallow", "finally"):
            return kind, self._op(depth + 1)
        return kind, label

    def _in_handler(self) -> Op:
        kind, label = self._random.choice(IN_HANDLER), self._label()
        if kind in ("execute", "together"):
            return kind, self._calls(depth=3)
        return kind, (label, self._part(self._label(), depth=1)) if kind == "call" else label

    def _calls(self, depth: int) -> list[tuple[str, str]]:
        kinds = ["plain", "gated", "again", "plain", "gated", "again", *(["part"] if depth < 2 else [])]
        names = self._random.choices(kinds, k=self._random.randint(1, 3))
        return [
            (name, self._part(self._label(), depth + 2) if name == "part" else self._label())
            for name in names
        ]

    def _label(self) -> str:
        self._count += 1
        return f"x{self._count}"


class SimulatedModel:
    """Answers what it is asked by the program: tool calls for `tools LABEL`, one round after the other, else a text."""

    name, dialect = "simulated", "openai"

    def __init__(self, world: World, parts: dict[str, list[Op]]) -> None:
        self._world = world
        ops = [_innermost(op) for ops in parts.values() for op in ops]
        self._rounds = {what[0]: what[1] for kind, what in ops if kind == "tools"} | {
            what[0]: [[("part", what[1])]] for kind, what in ops if kind == "agent"
        }

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self._world.model_asked(request.messages)
        await asyncio.sleep(self._world.random.random())
        self._fail(request.messages[-1])
        for chunk in self._reply(request.messages):
            current.get().check()
            yield chunk
        await asyncio.sleep(self._world.random.random())
        yield Finish("stop")

    def _fail(self, asked: dict[str, Any]) -> None:
        """Now and then it is out of order for a moment; some requests it refuses when it sees them first."""
        current.get().check()
        if self._world.random.random() < 0.05:
            raise ModelUnavailable("try again")
        request = str(asked["content"])
        if request.startswith("flaky ") and request not in self._world.failed:
            self._world.failed.add(request)
            raise BadModelRequest("not today")

    def _reply(self, messages: list[dict[str, Any]]) -> list[Chunk]:
        asked = asked_at(messages)
        word, _, label = messages[asked]["content"].partition(" ")
        given = [message for message in messages[asked:] if message["role"] == "tool"]
        done = sum(bool(message.get("tool_calls")) for message in messages[asked:])
        rounds = self._rounds.get(label, []) if word == "tools" else []
        if done < len(rounds):
            return [
                ToolCallChunk(f"c_{argument}", name, f'{{"label": "{argument}"}}')
                for name, argument in rounds[done]
            ]
        return [
            TextChunk(f"<{label}"),
            TextChunk("".join(f" {message['content']}" for message in given) + ">"),
        ]

    async def aclose(self) -> None:
        pass


async def _effect(name: str, label: str, *, gated: bool, idempotent: bool) -> str:
    world, _ = _world.get()
    call_id = current_call_id()
    await asyncio.sleep(world.random.random())
    world.effect(name, gated, idempotent, {"label": label}, call_id)
    await asyncio.sleep(world.random.random())
    current.get().check()
    return f"{name} {label}"


@tool
async def plain(label: str) -> str:
    """Take effect."""
    return await _effect("plain", label, gated=False, idempotent=False)


@tool(needs_approval=True)
async def gated(label: str) -> str:
    """Take effect, if somebody allows it."""
    return await _effect("gated", label, gated=True, idempotent=False)


@tool(idempotent=True)
async def again(label: str) -> str:
    """Take effect, as often as you like."""
    return await _effect("again", label, gated=False, idempotent=True)


def once(label: str) -> str:
    current.get().check()
    return f"step {label}"


async def once_async(label: str) -> str:
    world, _ = _world.get()
    await asyncio.sleep(world.random.random())
    current.get().check()
    return f"step {label}"


@agentic_function
async def part(label: str, runtime: Any = None) -> str:
    """Do a part of the program."""
    _, parts = _world.get()
    done = [await _do(kind, what, runtime) for kind, what in parts[label]]
    return f"[{' '.join(done)}]"


class Broken(Exception):
    pass


@agentic_function
async def breaking(label: str, runtime: Any = None) -> str:
    """Do a part of the program, then fail."""
    raise Broken(await part(label))


TOOLS = [plain, gated, again, part]


async def _do(kind: str, what: Any, runtime: Any) -> str:
    match kind:
        case "exec":
            return str(await runtime.aexec(f"ask {what}"))
        case "tools":
            return str(await runtime.aexec(f"tools {what[0]}", tools=TOOLS))
        case "agent":
            return str(await runtime.aexec(f"tools {what[0]}", tools=[part]))
        case "ask":
            return str(ask_user(f"question {what}"))
        case "step":
            return str(step(once, what))
        case "async_step":
            return str(await step(once_async, what))
        case "call":
            return await part(what[1])
        case "flaky":
            return await _flaky(what, runtime)
        case "gather" | "group" | "stream":
            return await _many(kind, what)
        case _:
            return await _guarded(kind, what, runtime)


async def _flaky(label: str, runtime: Any) -> str:
    """Asks again what failed."""
    try:
        return str(await runtime.aexec(f"flaky {label}"))
    except ModelError:
        return str(await runtime.aexec(f"flaky {label}"))


async def _many(kind: str, names: list[str]) -> str:
    if kind == "gather":
        return " ".join(await asyncio.gather(*(part(name) for name in names)))
    if kind == "stream":
        return " ".join([done async for done in bind(_one_by_one(names))])
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part(name)) for name in names]
    return " ".join(task.result() for task in tasks)


async def _one_by_one(names: list[str]) -> AsyncIterator[str]:
    for name in names:
        yield await part(name)


async def _guarded(kind: str, what: Any, runtime: Any) -> str:
    """Code that catches: what it should, what it should not, and what took too long."""
    if kind == "caught":
        try:
            return await breaking(what[1])
        except Broken as error:
            return f"caught {error}"
    if kind == "timed":
        try:
            async with asyncio.timeout(_world.get()[0].random.choice((0.5, 2, 1000))):
                return await part(what[1])
        except TimeoutError:
            return f"late {what[0]}"
    if kind == "swallow":
        try:
            return await _do(*what, runtime)
        except BaseException:
            current.get().check()
            return "swallowed"
    done = "left"
    try:
        done = await _do(*what, runtime)
    finally:
        current.get().check()
        return done  # noqa: B012 - that is what it is about


async def handler(context: SessionContext) -> AsyncIterator[events.Event]:
    """Does a part in a handler's way, and says what came of it."""
    _, parts = _world.get()
    done = []
    for kind, what in parts[str(context.messages[asked_at(context.messages)]["content"])]:
        if kind == "say":
            if f"({what})" not in [message["content"] for message in context.messages]:
                for event in _said(f"({what})"):
                    yield event
        elif kind == "execute":
            done += [await _execute(context, name, label) for name, label in what]
        elif kind == "together":
            done += await asyncio.gather(*(_execute(context, name, label) for name, label in what))
        else:
            done.append(await _do(kind, what, current_runtime()))
    for event in _said(f"[{' '.join(done)}]"):
        yield event


async def _execute(context: SessionContext, name: str, label: str) -> str:
    try:
        return str(await context.execute(name, label=label))
    except ToolFailed as error:
        return str(error)


def _said(text: str) -> list[events.Event]:
    message_id = new_id("msg")
    return [
        events.MessageStart(message_id=message_id),
        events.MessageDelta(message_id=message_id, delta={"type": "text", "text": text}),
        events.MessageEnd(message_id=message_id),
    ]


def _innermost(op: Op) -> Op:
    while op[0] in ("swallow", "finally"):
        op = op[1]
    return op


class Expected:
    """What parts must give, as patterns: what takes too long is given up or not. `given` are the results that the
    record has: of tool calls by their label, of questions by their text."""

    def __init__(self, parts: dict[str, list[Op]], given: dict[str, str]) -> None:
        self._parts, self._given = parts, given

    def part(self, name: str) -> str:
        done = [self._op(kind, what) for kind, what in self._parts[name] if kind != "say"]
        return rf"\[{' '.join(done)}\]"

    def chat(self, name: str) -> str:
        [(kind, what)] = self._parts[name]
        return self._op(kind, what)

    def _op(self, kind: str, what: Any) -> str:
        match kind:
            case "exec" | "flaky":
                return f"<{what}>"
            case "tools":
                return f"<{what[0]}{''.join(f' {self._call(*call)}' for calls in what[1] for call in calls)}>"
            case "agent":
                return f"<{what[0]} {self.part(what[1])}>"
            case "execute" | "together":
                return " ".join(self._call(*call) for call in what)
            case "ask":
                return self._got(f"question {what}")
            case "step" | "async_step":
                return f"step {what}"
            case "call":
                return self.part(what[1])
            case "timed":
                return f"(?:{self.part(what[1])}|late {what[0]})"
            case "gather" | "group" | "stream":
                return " ".join(self.part(name) for name in what)
            case "swallow" | "finally":
                return self._op(*what)
        return f"caught {self.part(what[1])}"

    def _call(self, name: str, label: str) -> str:
        if name != "part" or str(self._given.get(label)).startswith("This call was not run"):
            return self._got(label)
        return self.part(label)

    def _got(self, what: str) -> str:
        """What was never done, in a part that took too long, cannot be in what came of it."""
        return re.escape(self._given[what]) if what in self._given else "(?!)"
