"""A model that says what it was told to: deterministic, no network. `Scripted([...])`, or `scripted:FILE`
anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from segue.errors import ModelTimeout
from segue.models.protocol import Chunk, ModelRequest
from segue.models.replies import ReplyLike, Script, ScriptedReply, chunks_of, error_of, read_script


class Scripted:
    """Answers each call with the next of `replies` (shapes: `segue.models.replies`), which must last.

    Safe to share between tasks and threads; calls are numbered as they begin. One more call than there are
    replies raises `BadModelRequest`.
    """

    dialect = "scripted"

    def __init__(self, replies: Iterable[ReplyLike] | Script, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        """Every request, in order of the calls."""
        self.closed_early = 0
        """How many streams were closed before their `Finish`."""
        self._script = replies if isinstance(replies, Script) else Script(replies)

    @classmethod
    def from_file(cls, path: Path, name: str) -> Scripted:
        """Raises `UsageError` when the file cannot be read or is no script."""
        return cls(read_script(path), name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        reply = self._script.take(request)
        await _pause(reply.delay, request)
        try:
            async for chunk in self._say(reply):
                yield chunk
        except GeneratorExit:
            self.closed_early += 1
            raise

    async def _say(self, reply: ScriptedReply) -> AsyncIterator[Chunk]:
        for position, chunk in enumerate(chunks_of(reply, self.name)):
            if position and reply.pace:
                await asyncio.sleep(reply.pace)
            yield chunk
        if reply.error is not None:
            raise error_of(reply.error)

    async def aclose(self) -> None:
        """Nothing to free."""


async def _pause(delay: float, request: ModelRequest) -> None:
    if request.timeout is not None and delay > request.timeout:
        await asyncio.sleep(request.timeout)
        raise ModelTimeout(f"no reply within {request.timeout:g} s")
    if delay:
        await asyncio.sleep(delay)
