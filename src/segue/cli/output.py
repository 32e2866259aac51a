"""The three forms of an answer on standard output: text, one JSON object, or the envelopes as they become visible."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TextIO

import msgspec

from segue.cli.visible import visible
from segue.events.codec import encode_json, encode_row
from segue.events.envelope import Envelope
from segue.events.json_values import to_json
from segue.journal import Journal
from segue.stores.protocol import Stop
from segue.threads import background_thread


class Outcome(msgspec.Struct, kw_only=True):
    """How a run ended, as `--output-format json` shows it."""

    session_id: str
    turn_id: str
    status: str
    """completed, failed, cancelled, interrupted or suspended"""
    result: Any = None
    usage: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    """`{type, message}` of a failure"""


class Output(Protocol):
    def begin(self, journal: Journal, after_seq: int) -> None:
        """The turn is about to run; its rows come after `after_seq`."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """The turn is over, and all its rows are visible."""
        ...


class Text:
    """A text as it is, with a line end; another value as JSON. Nothing unless the turn completed.

    On a terminal, what would act on it is made visible; a file or a pipe gets every byte.
    """

    def begin(self, journal: Journal, after_seq: int) -> None:
        pass

    def finish(self, outcome: Outcome) -> None:
        if outcome.status == "completed":
            text = outcome.result if isinstance(outcome.result, str) else _json(outcome.result)
            shown = visible(text, lines=True) if _answers.on_terminal else text
            write(shown if shown.endswith("\n") else f"{shown}\n")


class Json:
    def begin(self, journal: Journal, after_seq: int) -> None:
        pass

    def finish(self, outcome: Outcome) -> None:
        fields = {name: getattr(outcome, name) for name in Outcome.__struct_fields__}
        if outcome.error is None:
            del fields["error"]
        write(f"{_json(fields)}\n")


class StreamJson:
    """Each row once, in order, when it is durable: the same lines that every other watcher of the session gets."""

    def begin(self, journal: Journal, after_seq: int) -> None:
        self._journal, self._seen = journal, after_seq
        self._stop = Stop()
        self._thread = background_thread(self._follow, "segue-stream-json")
        self._thread.start()

    def finish(self, outcome: Outcome) -> None:
        self._stop.set()
        self._thread.join()
        self._show(self._journal.read(self._seen))

    def _follow(self) -> None:
        for batch in self._journal.watch(self._seen, stop=self._stop):
            self._show(batch)

    def _show(self, rows: Iterable[Envelope]) -> None:
        for envelope in rows:
            write(encode_row(envelope).decode() + "\n")
            self._seen = envelope.seq


FORMATS: dict[str, type[Output]] = {"text": Text, "json": Json, "stream-json": StreamJson}


class _Answers:
    """Where answers go. When they cannot be written any more, the run goes on to its end in silence."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.failure: OSError | None = None
        """Why an answer is not where it was wanted; a reader who left is no failure."""

    @property
    def on_terminal(self) -> bool:
        return self.stream is not None and self.stream.isatty()

    def write(self, text: str) -> None:
        try:
            if self.stream is not None:
                self.stream.write(text)
                self.stream.flush()
        except BrokenPipeError:
            self.stream = None
        except OSError as error:
            self.stream, self.failure = None, error


_answers = _Answers(None)


def write(text: str) -> None:
    """To the standard output that `answers_only` keeps; at once."""
    _answers.write(text)


def failure() -> OSError | None:
    """What kept answers from being written, if anything did."""
    return _answers.failure


@contextlib.contextmanager
def answers_only() -> Iterator[None]:
    """Inside, standard output is kept for `write`: whatever else is printed, also by child processes and C code,
    goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    _answers.stream = os.fdopen(os.dup(kept), "w", encoding="utf-8", errors="replace", newline="")
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        _close_answers()


def _close_answers() -> None:
    stream, _answers.stream = _answers.stream, None
    if stream is not None:
        with contextlib.suppress(OSError):  # told by `write` already
            stream.close()


def _json(value: Any) -> str:
    return encode_json(to_json(value)).decode()
