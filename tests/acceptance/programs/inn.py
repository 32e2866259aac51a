"""An app of two routes: one talks with a model, one is written by hand. Its tools leave a line for each effect."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from segue import AgentApp, SessionContext, chat_agent, events, tool

EFFECTS = Path(os.environ.get("INN_EFFECTS", "effects"))


def _effect(line: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(f"{line}\n")


@tool(needs_approval=True)
def let(room: int) -> str:
    """Let a room."""
    _effect(f"let {room}")
    return f"room {room} is let"


def look(room: int) -> str:
    """See whether a room is free."""
    _effect(f"looked {room}")
    return "free"


@tool
def bill(amount: int) -> str:
    """Write a bill."""
    _effect(f"billed {amount}")
    if "die" in os.environ.get("INN", ""):
        os.kill(os.getpid(), signal.SIGKILL)
    return "billed"


app = AgentApp(tools=[let, look, bill])
app.agent_route("/")(chat_agent(instructions="You keep an inn."))


@app.agent_route("/by-hand")
async def by_hand(ctx: SessionContext) -> AsyncIterator[events.Event]:
    await ctx.execute("look", room=3)
    done = await ctx.execute("let", room=3)
    yield events.MessageStart(message_id=f"m{ctx.attempt}")
    yield events.MessageDelta(message_id=f"m{ctx.attempt}", delta={"type": "text", "text": f"Done: {done}."})
    yield events.MessageEnd(message_id=f"m{ctx.attempt}")
