"""Turns that are submitted, and run one after another in each session."""

from segue.dispatch.dispatcher import Dispatcher
from segue.dispatch.submitting import Submitted, submit

__all__ = ["Dispatcher", "Submitted", "submit"]
