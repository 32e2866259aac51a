"""Handlers: asynchronous generators of events, given a `SessionContext`, invoked once for each reason to act."""
