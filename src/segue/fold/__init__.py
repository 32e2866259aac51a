"""Pure views of a journal: envelopes in, view out. No clock, no ids, no store."""

from segue.fold.conversation import Conversation, fold, fold_from, messages, pending_tool_call
from segue.fold.diagnostics import Diagnostic
from segue.fold.entries import INTERRUPTED, STITCH
from segue.fold.path import active
from segue.fold.provider import provider_messages
from segue.fold.wire import wire_names

__all__ = [
    "INTERRUPTED",
    "STITCH",
    "Conversation",
    "Diagnostic",
    "active",
    "fold",
    "fold_from",
    "messages",
    "pending_tool_call",
    "provider_messages",
    "wire_names",
]
