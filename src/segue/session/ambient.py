"""The ambient turn: four private ContextVars and the functions that read them.

Only `segue.session.context` sets them. A writer whose turn has ended is skipped, so a value that a foreign context
could not reset (an async generator closed elsewhere) is harmless: nobody can reach an ended turn through it.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from segue.errors import NoSession, TurnEnded

if TYPE_CHECKING:
    from segue.session.runtime import Runtime, RuntimeSlot
    from segue.session.writer import SessionNodeWriter

_store: ContextVar[SessionNodeWriter | None] = ContextVar("segue_store", default=None)
_current_turn_id: ContextVar[str] = ContextVar("segue_turn_id", default="")
_current_runtime: ContextVar[RuntimeSlot | None] = ContextVar("segue_runtime", default=None)
_call_id: ContextVar[str] = ContextVar("segue_call_id", default="")

NO_SESSION = (
    "no session here: open one with `with segue.session_context():`. In a thread of your own, use"
    " `segue.ThreadPoolExecutor` or run the function under `contextvars.copy_context().run(...)`, which carry the"
    " session over."
)


def current_writer() -> SessionNodeWriter | None:
    """The writer of the innermost turn that is still open, or None."""
    writer = _store.get()
    while writer is not None and writer.turn.ended:
        writer = writer.outer
    return writer


def require_writer() -> SessionNodeWriter:
    """`current_writer`, or `NoSession` naming the fix."""
    writer = current_writer()
    if writer is None:
        raise NoSession(NO_SESSION)
    return writer


def require_not_left_over() -> None:
    """Raises `TurnEnded` in a task or thread that was inside a call when its turn ended."""
    if _call_id.get() and _store.get() is not None and current_writer() is None:
        raise TurnEnded(
            "the turn that this code ran in has ended: await or join what a turn starts before leaving it"
        )


def current_call_id() -> str:
    """Node id of the agentic call that this code runs in, empty outside any."""
    node_id = _call_id.get()
    writer = current_writer()
    return node_id if writer is not None and writer.turn.frame(node_id) is not None else ""


def current_runtime() -> Runtime | None:
    """The ambient runtime; None without a session or without a model."""
    slot = _current_runtime.get()
    return None if slot is None or current_writer() is None else slot.resolve()


def current_session() -> SessionNodeWriter | None:
    """The ambient session's writer (`.session_id`, `.turn_id`, `.append`, `.load`), or None outside any session."""
    return current_writer()


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
