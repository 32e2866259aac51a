"""A program that stops in every way: three deep, with gathered branches, a failure that is caught, an approval at the
bottom, a question in a sub-agent, and a tool whose process dies after its effect."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

from segue import agentic_function, ask_user, tool

EFFECTS = Path(os.environ.get("MILL_EFFECTS", "effects"))
"""One line an effect."""


def _effect(line: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(f"{line}\n")


@dataclasses.dataclass
class Grain:
    kind: str
    sacks: int


@tool(needs_approval=True)
def grind(kind: str, sacks: int = 1) -> str:
    """Grind some sacks of grain. It cannot be undone."""
    _effect(f"ground {sacks} {kind}")
    _die()
    return f"{sacks} sacks of {kind} flour"


@tool
def pay(amount: int, idempotency_key: str) -> str:
    """Pay the miller."""
    _effect(f"paid {amount} {idempotency_key}")
    _die()
    return "paid"


@tool(idempotent=True)
def look(place: str) -> str:
    """Look at a place."""
    _effect(f"looked {place}")
    _die()
    return "empty"


def _die() -> None:
    """The first time, as kill -9 would."""
    if "die" in os.environ.get("MILL", ""):
        os.kill(os.getpid(), signal.SIGKILL)


@agentic_function
def mill(order: str, runtime: Any = None) -> str:
    """You run the mill."""
    answer: str = runtime.exec(order, tools=[grind, pay, look])
    return answer


@agentic_function
async def choose(order: str, runtime: Any = None) -> Grain:
    """Choose the grain."""
    kind = await runtime.aexec(f"Which grain for {order}?")
    try:
        await broken(kind)
    except ValueError as error:
        kind = f"{kind} ({error})"
    return Grain(kind, 2)


@agentic_function
async def broken(kind: str, runtime: Any = None) -> str:
    """Fail after a paid call."""
    answer: str = await runtime.aexec(f"Is {kind} good?")
    raise ValueError(f"no: {answer}")


@agentic_function
async def bake(order: str, runtime: Any = None) -> str:
    """You are the baker's agent."""
    flour: str = await runtime.aexec(f"Get flour for {order}", tools=[mill])
    return flour


@agentic_function
async def shop(order: str, runtime: Any = None) -> str:
    """You run the shop."""
    grain, flour = await asyncio.gather(choose(order), bake(order))
    baker = ask_user(f"Who bakes {grain.kind}?", options=["Ada", "Bo"])
    answer: str = await runtime.aexec(f"{baker} bakes {flour} of {grain.sacks} sacks")
    return answer
