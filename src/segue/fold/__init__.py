"""Pure views of a journal: envelopes in, view out. No clock, no ids, no store."""

from segue.fold.conversation import Conversation, fold, fold_from, messages, pending_tool_call
from segue.fold.diagnostics import Diagnostic
from segue.fold.entries import INTERRUPTED, STITCH
from segue.fold.graph import CallGraph, Node
from segue.fold.path import active
from segue.fold.provider import provider_messages
from segue.fold.spending import Spending, Spent
from segue.fold.submissions import Submission, Submissions
from segue.fold.summary import SessionInfo, Summary, SummaryState
from segue.fold.turns import Turn, Turns
from segue.fold.usage import Usage
from segue.fold.waits import Wait, Waits
from segue.fold.wire import wire_names

__all__ = [
    "CallGraph",
    "Conversation",
    "Diagnostic",
    "INTERRUPTED",
    "Node",
    "STITCH",
    "SessionInfo",
    "Spending",
    "Spent",
    "Submission",
    "Submissions",
    "Summary",
    "SummaryState",
    "Turn",
    "Turns",
    "Usage",
    "Wait",
    "Waits",
    "active",
    "fold",
    "fold_from",
    "messages",
    "pending_tool_call",
    "provider_messages",
    "wire_names",
]
