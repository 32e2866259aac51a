"""Facts, the envelope that positions them, and the codec that keeps them to the byte."""

from segue.events.envelope import Envelope
from segue.events.facts import *  # noqa: F403
from segue.events.facts import CONTROL_TYPES, EVENT_TYPES, EVENTS, Event

__all__ = [
    "CONTROL_TYPES",
    "EVENTS",
    "EVENT_TYPES",
    "Envelope",
    "Event",
    *[cls.__name__ for cls in EVENTS.values()],
]
