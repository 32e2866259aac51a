"""Old payloads brought up to today's shape when they are read, one version at a time. The disk never changes.

A payload's version is its key `v`, 1 when it has none. There is no old version yet; the first change of a
payload's shape makes the class write `v` 2 and registers here how version 1 becomes version 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from segue.events.envelope import Envelope

Payload = dict[str, Any]
Upcast = Callable[[Payload], Payload]


class Upcasts:
    """Functions by event type and the version that they take; each gives the payload of the next version.

    A function must not change the payload it is given, and need not set `v`.
    """

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Upcast] = {}
        self.types: set[str] = set()
        """Types with at least one upcast: all others are read without a look at `v`."""

    def register(self, event_type: str, from_version: int) -> Callable[[Upcast], Upcast]:
        """Decorator. Raises ValueError when that step is registered already."""

        def add(upcast: Upcast) -> Upcast:
            if (event_type, from_version) in self._steps:
                raise ValueError(f"{event_type} has an upcast from version {from_version} already")
            self._steps[event_type, from_version] = upcast
            self.types.add(event_type)
            return upcast

        return add

    def clear(self, event_type: str) -> None:
        """Forget all steps of a type."""
        self._steps = {step: upcast for step, upcast in self._steps.items() if step[0] != event_type}
        self.types.discard(event_type)

    def apply(self, envelope: Envelope) -> Envelope:
        """The envelope with its payload in the newest version; the same object when it is that already."""
        payload, version = envelope.payload, envelope.payload.get("v", 1)
        while (step := self._steps.get((envelope.type, version))) is not None:
            version += 1
            payload = {**step(payload), "v": version}
        return envelope if payload is envelope.payload else msgspec.structs.replace(envelope, payload=payload)


UPCASTS = Upcasts()
"""Those that `segue.events.codec` applies."""
