"""Random programs of agentic functions that call, gather, catch, ask, take steps and use tools."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import AsyncIterator
from typing import Any

from world import World

from segue.agents.function import agentic_function
from segue.models.protocol import Chunk, Finish, ModelRequest, TextChunk, ToolCallChunk
from segue.session.ambient import current_call_id
from segue.session.steps import step
from segue.session.waits import ask_user
from segue.tools.tool import tool

Op = tuple[str, Any]

_world: contextvars.ContextVar[tuple[World, dict[str, list[Op]]]] = contextvars.ContextVar("simulated_world")


class Maker:
    """Makes a program: the parts by name, the first one `root`. Every text in it is unique."""

    def __init__(self, chance: random.Random) -> None:
        self._random, self._count = chance, 0
        self.parts: dict[str, list[Op]] = {}

    def make(self) -> dict[str, list[Op]]:
        self._part("root", depth=0)
        return self.parts

    def _part(self, name: str, depth: int) -> str:
        self.parts[name] = []  # in its place, before those inside it
        length = self._random.randint(1, 4 if depth == 0 else 3)
        self.parts[name] += [self._op(depth) for _ in range(length)]
        return name

    def _op(self, depth: int) -> Op:
        kinds = ["exec", "exec", "tools", "tools", "ask", "step"]
        kinds += ["call", "gather", "caught", "agent"] if depth < 3 else []
        kind = self._random.choice(kinds)
        label = self._label()
        if kind == "tools":
            return kind, (label, [self._calls() for _ in range(self._random.choice((1, 1, 2)))])
        if kind == "gather":
            return kind, [self._part(self._label(), depth + 1) for _ in range(self._random.randint(2, 3))]
        if kind in ("call", "caught", "agent"):
            return kind, (label, self._part(self._label(), depth + 1))
        return kind, label

    def _calls(self) -> list[tuple[str, str]]:
        names = self._random.choices(["plain", "gated", "again"], k=self._random.randint(1, 3))
        return [(name, self._label()) for name in names]

    def _label(self) -> str:
        self._count += 1
        return f"x{self._count}"


class SimulatedModel:
    """Answers what it is asked by the program: tool calls for `tools LABEL`, one round after the other, else a text."""

    name, dialect = "simulated", "openai"

    def __init__(self, world: World, parts: dict[str, list[Op]]) -> None:
        self._world = world
        self._rounds = {op[1][0]: op[1][1] for ops in parts.values() for op in ops if op[0] == "tools"} | {
            op[1][0]: [[("part", op[1][1])]] for ops in parts.values() for op in ops if op[0] == "agent"
        }

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self._world.model_asked(request.messages)
        await asyncio.sleep(self._world.random.random())
        for chunk in self._reply(request.messages):
            self._world.process.check()
            yield chunk
        await asyncio.sleep(self._world.random.random())
        yield Finish("stop")

    def _reply(self, messages: list[dict[str, Any]]) -> list[Chunk]:
        asked = max(index for index, message in enumerate(messages) if message["role"] == "user")
        word, _, label = messages[asked]["content"].partition(" ")
        given = [message for message in messages[asked:] if message["role"] == "tool"]
        done = sum(message["role"] == "assistant" for message in messages[asked:])
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
    world.process.check()
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
    world, _ = _world.get()
    world.process.check()
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


async def _do(kind: str, what: Any, runtime: Any) -> str:
    match kind:
        case "exec":
            return str(await runtime.aexec(f"ask {what}"))
        case "tools":
            return str(await runtime.aexec(f"tools {what[0]}", tools=[plain, gated, again]))
        case "agent":
            return str(await runtime.aexec(f"tools {what[0]}", tools=[part]))
        case "ask":
            return str(ask_user(f"question {what}"))
        case "step":
            return str(step(once, what))
        case "call":
            return await part(what[1])
        case "gather":
            return " ".join(await asyncio.gather(*(part(name) for name in what)))
        case "caught":
            try:
                return await breaking(what[1])
            except Broken as error:
                return f"caught {error}"
    raise AssertionError(kind)


def expected(parts: dict[str, list[Op]], given: dict[str, str], name: str = "root") -> str:
    """What a part must give, when `given` are the results that the record has: of tool calls by their label, of
    questions by their text."""
    return f"[{' '.join(_expected(parts, given, kind, what) for kind, what in parts[name])}]"


def _expected(parts: dict[str, list[Op]], given: dict[str, str], kind: str, what: Any) -> str:
    match kind:
        case "exec":
            return f"<{what}>"
        case "tools":
            return f"<{what[0]}{''.join(f' {given[label]}' for calls in what[1] for _, label in calls)}>"
        case "agent":
            return f"<{what[0]} {expected(parts, given, what[1])}>"
        case "ask":
            return given[f"question {what}"]
        case "step":
            return f"step {what}"
        case "call":
            return expected(parts, given, what[1])
        case "gather":
            return " ".join(expected(parts, given, name) for name in what)
    return f"caught {expected(parts, given, what[1])}"
