"""Facts to bytes and back. Strict when writing, tolerant when reading, exact to the byte both ways.

The fast way is msgspec, and it proves itself: what it wrote is read back and compared before it is believed.
So nothing that it would change silently (NaN, bytes, keys that are not text) reaches the disk. What it
refuses or changes goes the slow way, `json_text`, which keeps the value exactly or says what is wrong with
it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import UNSET

from segue.errors import InvalidEvent
from segue.events import json_text
from segue.events.envelope import Envelope
from segue.events.facts import EVENTS, Event
from segue.events.json_text import MAX_DEPTH, is_deep, too_deep
from segue.events.upcasts import UPCASTS

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_Raw = msgspec.Raw
_decode = msgspec.json.Decoder().decode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_envelopes = msgspec.json.Decoder(Envelope).decode_lines
_EVENT_DECODERS = {cls: msgspec.json.Decoder(cls).decode for cls in EVENTS.values()}
_REFUSALS = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
_PLACE = re.compile(r"(?P<problem>.*?) - at `(?:key in )?\$\.?(?P<place>.*)`", re.DOTALL)


class DraftLike(Protocol):
    """`segue.stores.protocol.Draft`, which this layer may not import."""

    @property
    def id(self) -> str: ...
    @property
    def deployment_id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def created_at(self) -> str: ...


class _Row(msgspec.Struct, frozen=True, gc=False):
    """An envelope whose payload is text already."""

    id: str
    session_id: str
    deployment_id: str
    seq: int
    type: str
    payload: msgspec.Raw
    created_at: str


def encode_json(value: Any) -> bytes:
    """A JSON value as strict JSON text in UTF-8, on one line, without loss; a tuple is written as an array.

    Raises `InvalidEvent` for what is not JSON, `ValueTooDeep` over 200 levels, `IntegerTooLarge` over 10,000
    digits.
    """
    try:
        data = _encode(value)
        if _decode(data) == value and not is_deep(data):
            return data
    except _REFUSALS:
        pass
    return json_text.write(value)


def decode_json(data: bytes | str) -> Any:
    """The value of strict JSON text. Raises `InvalidEvent`, `ValueTooDeep`, `IntegerTooLarge`."""
    try:
        return _decode(data)
    except _REFUSALS:
        return json_text.read(data)


def encode_payload(event: Event) -> bytes:
    """The fact's fields as JSON; those that hold their default are left out.

    Raises `InvalidEvent` naming type, field and problem when the event is not of the union, or a field has
    the wrong type or holds what is not JSON; `ValueTooDeep` and `IntegerTooLarge` when it holds too much of
    it.
    """
    decode = _EVENT_DECODERS.get(type(event))
    if decode is None:
        raise InvalidEvent(f"{type(event).__name__} is not one of the events in segue.events")
    try:
        data = _encode(event)
        if decode(data) == event and not is_deep(data):
            return data
    except _REFUSALS:
        pass
    return _encode_payload_slowly(event)


def row_bytes(session_id: str, seq: int, draft: DraftLike) -> bytes:
    """The line, without its end, that a draft becomes at this position; its payload goes in as it is."""
    payload = _Raw(draft.payload)
    row = _Row(draft.id, session_id, draft.deployment_id, seq, draft.type, payload, draft.created_at)
    try:
        return _encode(row)
    except UnicodeEncodeError:
        return _splice(row, draft.payload)


def lines_bytes(session_id: str, first_seq: int, drafts: Sequence[DraftLike]) -> bytes:
    """The lines, each with its newline, that drafts become from this position on."""
    try:
        return _encode_lines(
            [
                _Row(it.id, session_id, it.deployment_id, seq, it.type, _Raw(it.payload), it.created_at)
                for seq, it in enumerate(drafts, first_seq)
            ]
        )
    except UnicodeEncodeError:
        rows = (row_bytes(session_id, seq, draft) for seq, draft in enumerate(drafts, first_seq))
        return b"".join(row + b"\n" for row in rows)


def encode_row(envelope: Envelope) -> bytes:
    """An envelope as the line it was read from, to the byte as long as no upcast changed it."""
    payload = encode_json(envelope.payload)
    fields = (envelope.id, envelope.session_id, envelope.deployment_id, envelope.seq, envelope.type)
    row = _Row(*fields, msgspec.Raw(payload), envelope.created_at)
    try:
        return _encode(row)
    except UnicodeEncodeError:
        return _splice(row, payload)


def decode_row(line: bytes | str) -> Envelope:
    """One line of a journal. Unknown keys of the envelope are ignored; the payload is upcast.

    Raises `InvalidEvent` when the line is not JSON, or a field is missing or has the wrong type.
    """
    try:
        envelope = _decode_envelope(line)
    except _REFUSALS:
        envelope = _decode_row_slowly(line)
    return UPCASTS.apply(envelope) if envelope.type in UPCASTS.types else envelope


def decode_rows(lines: bytes) -> list[Envelope]:
    """Lines of a journal, each with its end: `decode_row` of each, faster.

    Raises `InvalidEvent` as that does.
    """
    try:
        envelopes = _decode_envelopes(lines)
    except _REFUSALS:
        return [decode_row(line) for line in lines.split(b"\n")[:-1]]
    if UPCASTS.types:
        return [UPCASTS.apply(envelope) for envelope in envelopes]
    return envelopes


def decode_event(envelope: Envelope) -> Event:
    """The typed fact of an envelope. Unknown keys of the payload are ignored.

    Raises `InvalidEvent` for an unknown type, or a field that is missing or has the wrong type.
    """
    cls = EVENTS.get(envelope.type)
    if cls is None:
        raise InvalidEvent(f"{envelope.type} is not an event type that this version knows")
    known = {name: value for name, value in envelope.payload.items() if name in cls.__struct_fields__}
    try:
        return msgspec.convert(known, cls)
    except msgspec.ValidationError as error:
        raise _invalid(cls.TYPE, error) from error


def _encode_payload_slowly(event: Event) -> bytes:
    payload = _written_fields(event)
    try:
        msgspec.convert(payload, type(event))
        return json_text.write(payload, depth=MAX_DEPTH + 1)
    except msgspec.ValidationError as error:
        raise _invalid(event.TYPE, error) from error
    except RecursionError as error:
        raise too_deep() from error
    except InvalidEvent as error:
        raise type(error)(f"{event.TYPE}.{error}") from error


def _written_fields(event: Event) -> dict[str, Any]:
    """What msgspec writes of a struct that omits defaults."""
    written = {}
    for field in msgspec.structs.fields(type(event)):
        value = getattr(event, field.name)
        factory = field.default_factory
        default = field.default if factory is msgspec.NODEFAULT else factory()
        if value is not UNSET and not (type(value) is type(default) and value == default):
            written[field.name] = value
    return written


def _splice(row: _Row, payload: bytes) -> bytes:
    head = {
        "id": row.id,
        "session_id": row.session_id,
        "deployment_id": row.deployment_id,
        "seq": row.seq,
        "type": row.type,
    }
    return (
        encode_json(head)[:-1]
        + b',"payload":'
        + payload
        + b',"created_at":'
        + encode_json(row.created_at)
        + b"}"
    )


def _decode_row_slowly(line: bytes | str) -> Envelope:
    try:
        return msgspec.convert(json_text.read(line), Envelope)
    except msgspec.ValidationError as error:
        raise _invalid("journal row", error) from error
    except RecursionError as error:
        raise too_deep() from error


def _invalid(name: str, error: msgspec.ValidationError) -> InvalidEvent:
    """msgspec's words with the place in front: `TOOL_CALL.name: Expected ...`."""
    found = _PLACE.fullmatch(str(error))
    if found is None or not found["place"]:
        return InvalidEvent(f"{name}: {found['problem'] if found else error}")
    return InvalidEvent(f"{name}.{found['place']}: {found['problem']}")
