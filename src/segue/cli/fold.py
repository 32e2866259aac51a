"""`segue fold`: journals on standard input to chat messages on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from segue.errors import InvalidEvent
from segue.events.codec import decode_json, decode_row, encode_json
from segue.events.envelope import Envelope
from segue.fold.conversation import Conversation
from segue.fold.path import active


@click.command()
@click.option("--batch", is_flag=True, help="Each line is a journal of its own: a JSON array of envelopes.")
def fold(batch: bool) -> None:
    """Turn a journal on standard input into chat messages.

    Reads one envelope a line and prints `{"messages": [...], "pending_tool_call": ...}`; with --batch one such result
    a line. A line that is not an envelope ends it with exit code 1 and the line's number.
    """
    lines = enumerate(sys.stdin.buffer, 1)
    if not batch:
        _print(_result(_row(line, f"line {number}") for number, line in lines if line.strip()))
        return
    for number, line in lines:
        if line.strip():
            _print(_result(_journal(line, number)))


def _result(rows: Iterable[Envelope]) -> dict[str, Any]:
    conversation = Conversation()
    for envelope in active(rows):
        conversation.apply(envelope)
    return {"messages": conversation.messages(), "pending_tool_call": conversation.pending_tool_call}


def _row(line: bytes, place: str) -> Envelope:
    try:
        return decode_row(line)
    except InvalidEvent as error:
        raise type(error)(f"{place}: {error}") from error


def _journal(line: bytes, number: int) -> list[Envelope]:
    place = f"line {number}"
    try:
        rows = decode_json(line)
        if not isinstance(rows, list):
            raise InvalidEvent("a journal is a JSON array of envelopes")
        return [_row(encode_json(row), f"row {index}") for index, row in enumerate(rows, 1)]
    except (InvalidEvent, msgspec.MsgspecError) as error:
        raise InvalidEvent(f"{place}: {error}") from error


def _print(result: dict[str, Any]) -> None:
    sys.stdout.write(encode_json(result).decode() + "\n")
    sys.stdout.flush()
