"""One durable session for LLM agents, from every entry point, through every crash.

Importing this does nothing: each public name is loaded from its module when it is first used.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers know the name; importing typing would double what `import segue` costs
if TYPE_CHECKING:
    from segue import errors, events
    from segue.agents.function import Run, agentic_function
    from segue.errors import ApprovalRequired
    from segue.handlers.app import AgentApp
    from segue.handlers.chat import chat_agent
    from segue.handlers.context import SessionContext
    from segue.handlers.drive import drive
    from segue.handlers.resume import resume
    from segue.session.budget import Budget
    from segue.session.context import (
        SessionHandle,
        ThreadPoolExecutor,
        bind,
        current_session,
        session_context,
    )
    from segue.session.db import default_db
    from segue.session.runtime import create_runtime
    from segue.session.steps import now, step, uuid
    from segue.session.waits import ask_user
    from segue.session.writer import SessionNodeWriter
    from segue.tools.tool import Tool, tool

_MODULES = {
    "AgentApp": "segue.handlers.app",
    "ApprovalRequired": "segue.errors",
    "Budget": "segue.session.budget",
    "Run": "segue.agents.function",
    "SessionContext": "segue.handlers.context",
    "SessionHandle": "segue.session.context",
    "SessionNodeWriter": "segue.session.writer",
    "ThreadPoolExecutor": "segue.session.context",
    "Tool": "segue.tools.tool",
    "agentic_function": "segue.agents.function",
    "ask_user": "segue.session.waits",
    "bind": "segue.session.context",
    "chat_agent": "segue.handlers.chat",
    "create_runtime": "segue.session.runtime",
    "current_session": "segue.session.context",
    "default_db": "segue.session.db",
    "drive": "segue.handlers.drive",
    "now": "segue.session.steps",
    "resume": "segue.handlers.resume",
    "session_context": "segue.session.context",
    "step": "segue.session.steps",
    "tool": "segue.tools.tool",
    "uuid": "segue.session.steps",
}
"""Public name -> the module that defines it."""

__all__ = [
    "AgentApp",
    "ApprovalRequired",
    "Budget",
    "Run",
    "SessionContext",
    "SessionHandle",
    "SessionNodeWriter",
    "ThreadPoolExecutor",
    "Tool",
    "__version__",
    "agentic_function",
    "ask_user",
    "bind",
    "chat_agent",
    "create_runtime",
    "current_session",
    "default_db",
    "drive",
    "errors",
    "events",
    "now",
    "resume",
    "session_context",
    "step",
    "tool",
    "uuid",
]


def _load(name: str) -> object:
    if name in ("errors", "events"):
        return importlib.import_module(f"segue.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # to type checkers an unknown name stays an error
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
