"""The journal of a session: the only writer, and the folds that are kept of it."""

from segue.journal.held import DeltaKind
from segue.journal.journal import DELTA_BYTES, Journal, open_journal
from segue.journal.kept import View
from segue.journal.large import shown, whole_value
from segue.journal.processes import DELTA_SECONDS, EXIT_SECONDS, flush_journals

__all__ = [
    "DELTA_BYTES",
    "DELTA_SECONDS",
    "EXIT_SECONDS",
    "DeltaKind",
    "Journal",
    "View",
    "flush_journals",
    "open_journal",
    "shown",
    "whole_value",
]
