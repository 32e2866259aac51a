"""Functions that the tests run with the installed program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from segue import agentic_function, ask_user


@agentic_function
def reply(text: str, runtime: Any = None) -> str:
    """You are the reading desk. Answer in one line."""
    answer: str = runtime.exec(text)
    return answer


@agentic_function
async def reply_async(text: str, runtime: Any = None) -> str:
    """You are the reading desk."""
    answer: str = await runtime.aexec(text)
    return answer


@agentic_function
def outer(text: str, runtime: Any = None) -> str:
    """Ask further."""
    return inner(text) + inner("again")


@agentic_function
def inner(text: str, runtime: Any = None) -> str:
    """Say it."""
    answer: str = runtime.exec(text)
    return answer


@agentic_function
def facts(n: int) -> dict[str, Any]:
    return {"n": n, "kind": type(n).__name__}


def plain(text: str) -> str:
    return text.upper()


@agentic_function
def noisy(text: str) -> str:
    print("printed by the function")
    subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
    return text


@agentic_function
def fails(text: str) -> str:
    raise ValueError(f"cannot do {text}")


@agentic_function
def asks(text: str) -> str:
    ask_user("Which colour?", options=["red", "blue"])


@agentic_function
def sleeps(ready: str) -> str:
    """Makes the file `ready`, then goes on for a minute."""
    Path(ready).touch()
    time.sleep(60)
    return "slept"


@agentic_function
async def sleeps_async(ready: str) -> str:
    Path(ready).touch()
    await asyncio.sleep(60)
    return "slept"


@agentic_function
def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(300):
        value = [value]
    return value


@agentic_function
def echo(text: str) -> str:
    return text
