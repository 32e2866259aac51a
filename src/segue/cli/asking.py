"""Asking whoever sits at the terminal for what a turn waits for. What is not decided there waits on."""

from __future__ import annotations

import os
import sys
import termios
from typing import Any

import click

from segue.cli import exits, waits
from segue.cli.deciding import login
from segue.cli.visible import exact, say, visible
from segue.errors import AlreadyDecided, InvalidEvent, NotWaiting, UsageError
from segue.events.codec import decode_json, encode_json
from segue.fold.turns import Turns
from segue.fold.waits import Wait
from segue.journal import Journal
from segue.session import decisions
from segue.session.answers import misfits
from segue.session.awaited import awaited
from segue.typed.strict_json import NotJson, read_json


class Later(Exception):
    """This one is left for later."""


def is_attached() -> bool:
    """Whether somebody is there who sees a question and can answer it: standard input and error are a terminal, and
    this is the job in its foreground. Reading from behind would stop the process."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False


def decide(journal: Journal, turn_id: str) -> int:
    """Ask for each open wait of the turn: `DONE` when the turn can go on, `SUSPENDED` when something waits on,
    `INTERRUPTED` after Ctrl-C. A closed input leaves everything that is not decided."""
    left: set[str] = set()
    asked = False
    try:
        while (found := _next(journal, turn_id, left)) is not None:
            where, wait = found
            asked = True
            try:
                _ask(where, wait)
            except Later:
                left.add(wait.id)
            except (AlreadyDecided, NotWaiting) as error:
                say(f"segue: {error}")
            except UsageError as error:  # it still waits: ask again
                say(f"segue: {error}")
    except EOFError:
        say("")
        return exits.SUSPENDED
    except KeyboardInterrupt:
        say("")
        return exits.INTERRUPTED
    return exits.DONE if asked and not left else exits.SUSPENDED


def _next(journal: Journal, turn_id: str, left: set[str]) -> tuple[Journal, Wait] | None:
    turn = journal.view(Turns).get(turn_id)
    open_ones = [] if turn is None else awaited(journal, turn)
    return next(((where, wait) for where, wait in open_ones if wait.id not in left), None)


def _ask(journal: Journal, wait: Wait) -> None:
    _forget_what_was_typed()
    if wait.kind == "question":
        say(f"\n{waits.asked(wait)}")
        decisions.answer(journal, wait.id, _answer(wait), by=login())
    else:
        say(f"\n{_HEADS[wait.kind]}: {waits.called(wait, see='[v]iew')}")
        (_approval if wait.kind == "approval" else _outcome)(journal, wait)


_HEADS = {"approval": "waits for an approval", "unknown_outcome": "was interrupted, outcome unknown"}


def _approval(journal: Journal, wait: Wait) -> None:
    menu = ("approve", "deny", "edit", "always", "view", "later")
    while (
        word := _choice("[a]pprove, [d]eny, [e]dit, al[w]ays, [v]iew all, [l]ater", menu, w="always")
    ) == "view":
        say(waits.whole(wait))
    if word == "approve":
        decisions.approve(journal, wait.id, approver=login())
    elif word == "deny":
        decisions.deny(journal, wait.id, reason=_line("words to the model, or nothing: "), approver=login())
    elif word == "edit":
        decisions.approve(journal, wait.id, arguments=_edited(wait), approver=login())
    else:
        _always(journal, wait)


def _always(journal: Journal, wait: Wait) -> None:
    how: Any = _choice("always with [t]hese arguments, with [a]ny, or [b]ack", ("these", "any", "back"))
    if how != "back":
        also = decisions.approve(journal, wait.id, always=how, approver=login())
        say("".join(f"approved by the rule: {call}\n" for call in also) + "it is set; `segue rules` shows it")


def _outcome(journal: Journal, wait: Wait) -> None:
    words = ("retry", "skip", "view", "later")
    while (word := _choice("[r]etry, [s]kip, [v]iew all, [l]ater", words)) == "view":
        say(waits.whole(wait))
    action: Any = word
    decisions.resolve(journal, wait.id, action, by=login())


def _edited(wait: Wait) -> Any:
    """The arguments as they come out of the editor."""
    text = click.edit(f"{encode_json(wait.arguments).decode()}\n", extension=".json")
    if text is None:
        raise UsageError("nothing was changed")
    try:
        return decode_json(text)
    except InvalidEvent as error:
        raise UsageError(f"that is not JSON: {error}") from error


# --- questions ---


def _answer(wait: Wait) -> Any:
    if wait.options:
        return _option(wait.options)
    schema = wait.schema
    if schema is None:
        return _filled("answer: ")
    if schema.get("type") == "object" and schema.get("properties"):
        return _form(schema)
    return _value("answer", schema, schema)


def _option(options: list[str]) -> str:
    say("\n".join(f"  {number}. {exact(option)}" for number, option in enumerate(options, 1)))
    while True:
        said = _filled("number: ")
        if said in options:
            return said
        if said.isascii() and said.isdigit() and 1 <= int(said) <= len(options):
            return options[int(said) - 1]
        say(f"say a number from 1 to {len(options)}")


def _form(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields one by one, then all together: what does not fit as a whole is asked once more."""
    given: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        within = {**part, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}
        value = _value(name, part, within, optional=name not in schema.get("required", ()))
        if value is not _LEFT_OUT:
            given[name] = value
    if problems := misfits(schema, given):
        raise UsageError("that does not fit: " + "; ".join(problems))
    return given


_LEFT_OUT: Any = object()


def _value(name: str, part: dict[str, Any], schema: dict[str, Any], *, optional: bool = False) -> Any:
    about = part.get("description") or part.get("title") or ""
    kinds = " | ".join(encode_json(value).decode() for value in part.get("enum", ())) or str(
        part.get("type", "JSON")
    )
    said = ", ".join([*([str(about)] if about else []), kinds, *(["may be left out"] if optional else [])])
    while True:
        text = _line(f"{exact(name)} ({exact(said)}): ")
        if optional and not text:
            return _LEFT_OUT
        for value in _readings(text):
            if not (problems := misfits(schema, value)):
                return value
        say("; ".join(problems))


def _readings(text: str) -> list[Any]:
    """What a line can mean: itself, or the JSON in it. The reading that is told of comes last."""
    try:
        return [text, read_json(text)]
    except NotJson:
        return [text]


# --- lines ---


def _choice(prompt: str, words: tuple[str, ...], **letters: str) -> str:
    """One of the words, or its first letter; never without something said."""
    meant = {word[0]: word for word in reversed(words)} | letters | {word: word for word in words}
    while True:
        word = meant.get(_line(f"{prompt}: ").casefold())
        if word == "later":
            raise Later
        if word is not None:
            return word


def _filled(prompt: str) -> str:
    while not (text := _line(prompt)):
        pass
    return text


def _line(prompt: str) -> str:
    """Raises `EOFError`. A line that its end of file cut off is no answer."""
    click.echo(visible(prompt), nl=False, err=True)
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise EOFError
    return line.strip()


def _forget_what_was_typed() -> None:
    """What was typed before a question was seen is no answer to it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
