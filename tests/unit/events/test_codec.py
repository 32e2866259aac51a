from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from segue.errors import IntegerTooLarge, InvalidEvent, SegueError, ValueTooDeep
from segue.events import (
    EVENTS,
    CallEnded,
    Envelope,
    Error,
    Event,
    SessionUpdated,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnSuspended,
)
from segue.events.codec import (
    decode_event,
    decode_json,
    decode_row,
    decode_rows,
    encode_json,
    encode_payload,
    encode_row,
    row_bytes,
)
from segue.events.json_text import write
from segue.stores.protocol import Draft

ROW = (
    b'{"id":"evt_1","session_id":"chat_1","deployment_id":"local","seq":7,"type":"ERROR",'
    b'"payload":{"message":"no"},"created_at":"2026-11-29T12:00:00.000000Z"}'
)
ENVELOPE = Envelope("evt_1", "chat_1", "local", 7, "ERROR", {"message": "no"}, "2026-11-29T12:00:00.000000Z")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\0\u2028\U0001f600\x7f/", '"\\u0000\u2028\U0001f600\x7f/"'.encode()),
        ("a\ud800b\udfff", b'"a\\ud800b\\udfff"'),
        ({"\udc00": "\ud83d"}, b'{"\\udc00":"\\ud83d"}'),
        ([-0.0, 0.1, 1e16, 5e-324, 1.7976931348623157e308], b"[-0.0,0.1,1e16,5e-324,1.7976931348623157e308]"),
        ({"b": 1, "a": {"z": None, "y": True}}, b'{"b":1,"a":{"z":null,"y":true}}'),
        (2**64, b"18446744073709551616"),
        pytest.param(-(10**9_999) - 7, b"-1" + b"0" * 9_998 + b"7", id="10,000 digits"),
    ],
)
def test_a_value_is_written_exactly_and_read_back_equal(value: Any, text: bytes) -> None:
    assert encode_json(value) == text
    assert repr_of(decode_json(text)) == repr_of(value)


def repr_of(value: Any) -> Any:
    """Equality that tells -0.0 from 0.0 and 1 from True, and does not stumble over long integers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def test_a_split_surrogate_pair_is_joined_because_json_has_no_other_form_of_it() -> None:
    assert encode_json("\ud83d\ude00\ud83d") == '"\U0001f600\\ud83d"'.encode()


def test_the_slow_way_writes_what_the_fast_way_writes() -> None:
    value = {"a": [1, -2.5, None, True, False, 'q"\\\n\t\x01', {}, []], "é\U0001f600": {"x": 1e300}}
    assert write(value) == msgspec.json.encode(value)


def test_a_tuple_is_written_as_an_array() -> None:
    assert encode_json((1, ("a",))) == b'[1,["a"]]'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1e400", 10**400),
        (b"-1.5E310", -15 * 10**309),
        (b"[1e-400]", [0.0]),
        pytest.param(b"1e9999", 10**9999, id="1e9999"),
    ],
)
def test_a_number_beyond_floats_is_read_as_the_exact_integer(text: bytes, value: Any) -> None:
    assert decode_json(text) == value


def test_the_interpreters_limit_on_digits_is_neither_hit_nor_changed() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert decode_json(encode_json([10**9_000 + 1])) == [10**9_000 + 1]
        assert sys.get_int_max_str_digits() == 640
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize(
    "value", [10**10_000, -(10**10_000), {"a": [10**12_000]}], ids=["positive", "negative", "nested"]
)
def test_an_integer_of_more_than_10_000_digits_is_refused(value: Any) -> None:
    with pytest.raises(IntegerTooLarge):
        encode_json(value)


@pytest.mark.parametrize(
    "text", [b"1" * 10_001, b"1e10000", b"1e999999999999"], ids=["digits", "exponent", "giant exponent"]
)
def test_a_number_of_more_than_10_000_digits_is_not_read(text: bytes) -> None:
    with pytest.raises(IntegerTooLarge):
        decode_json(text)


def test_200_levels_are_kept() -> None:
    assert decode_json(encode_json(nested(200))) == nested(200)


@pytest.mark.parametrize("levels", [201, 100_000])
def test_more_than_200_levels_are_refused(levels: int) -> None:
    with pytest.raises(ValueTooDeep):
        encode_json(nested(levels))


def test_brackets_in_text_are_not_levels() -> None:
    text = "[{" * 5_000
    assert decode_json(encode_json([text])) == [text]


def test_reading_text_that_exhausts_the_stack_is_an_error_of_ours() -> None:
    with pytest.raises(ValueTooDeep):
        decode_json(b"[" * 200_000 + b"]" * 200_000)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "nan is not a JSON value"),
        ({"a": [1, float("inf")]}, r"a\[1\]: inf is not a JSON value"),
        ({"a": {1: 2}}, "a: the key 1 is not text"),
        ([b"x"], r"\[0\]: bytes is not a JSON value"),
        ({"s": {1}}, "s: set is not a JSON value"),
        (msgspec.UNSET, "UnsetType is not a JSON value"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(InvalidEvent, match=message):
        encode_json(value)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b"[1,]", b'"\xff"', b'"\xed\xa0\x80"', b'"a\nb"', b"1 2"]
)
def test_what_is_not_strict_json_is_not_read(text: bytes) -> None:
    with pytest.raises(InvalidEvent):
        decode_json(text)


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (ToolResult(tool_call_id="c", result=None), b'{"tool_call_id":"c","result":null}'),
        (CallEnded(node_id="n", status="completed"), b'{"node_id":"n","status":"completed"}'),
        (
            CallEnded(node_id="n", status="completed", result=None),
            b'{"node_id":"n","status":"completed","result":null}',
        ),
        (SessionUpdated(tags=[]), b'{"tags":[]}'),
        (
            ToolCall(tool_call_id="c", name="\ud800", arguments=[]),
            b'{"tool_call_id":"c","name":"\\ud800","arguments":[]}',
        ),
        (TurnSuspended(turn_id="\ud800"), b'{"turn_id":"\\ud800"}'),
        (TurnSuspended(turn_id="t", waits=("w",)), b'{"turn_id":"t","waits":["w"]}'),  # type: ignore[arg-type]
    ],
)
def test_a_payload_leaves_out_defaults_and_nothing_else(event: Event, payload: bytes) -> None:
    assert encode_payload(event) == payload


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (ToolCall(tool_call_id="c", name=3, arguments={}), r"TOOL_CALL\.name: Expected `str`, got `int`"),
        (
            TurnSuspended(turn_id="t", waits=["a", 3]),
            r"TURN_SUSPENDED\.waits\[1\]: Expected `str`, got `int`",
        ),
        (ToolStarted(tool_call_id="c", attempt=True), r"TOOL_STARTED\.attempt: Expected `int`, got `bool`"),
        (CallEnded(node_id="n", status="bad"), r"CALL_ENDED\.status: Invalid enum value 'bad'"),
        (SessionUpdated(title=None), r"SESSION_UPDATED\.title: Expected `str`, got `null`"),
        (
            ToolResult(tool_call_id="c", result={"x": [{1}]}),
            r"TOOL_RESULT\.result\.x\[0\]: set is not a JSON value",
        ),
        (ToolResult(tool_call_id="c", result=float("nan")), r"TOOL_RESULT\.result: nan is not a JSON value"),
        (ToolResult(tool_call_id="c", result=nested(201)), r"TOOL_RESULT\.result\[0\].*200 levels"),
        (ToolResult(tool_call_id="c", result=10**10_000), r"TOOL_RESULT\.result: .*10,000 digits"),
        ({"message": "no"}, "dict is not one of the events"),
        (Event(), "Event is not one of the events"),
    ],
)
def test_a_wrong_event_is_refused_with_type_field_and_problem(event: Any, message: str) -> None:
    with pytest.raises(InvalidEvent, match=message):
        encode_payload(event)


def test_a_field_may_be_nested_200_levels_deep() -> None:
    event = ToolResult(tool_call_id="c", result=nested(200))
    assert decode_json(encode_payload(event)) == {"tool_call_id": "c", "result": nested(200)}


def test_a_row_has_the_seven_fields_in_order_and_the_payload_as_it_was_given() -> None:
    draft = Draft("evt_1", "local", "ERROR", b'{"message":"no"}', "2026-11-29T12:00:00.000000Z")
    assert row_bytes("chat_1", 7, draft) == ROW


def test_a_row_with_lone_surrogates_in_the_envelope_keeps_its_form() -> None:
    draft = Draft("evt_1", "\ud800", "ERROR", b'{"message":"no"}', "2026-11-29T12:00:00.000000Z")
    line = row_bytes("chat_1", 7, draft)
    assert line == ROW.replace(b'"local"', b'"\\ud800"')
    assert encode_row(decode_row(line)) == line


def test_a_row_is_read_with_unknown_envelope_keys_ignored() -> None:
    assert decode_row(ROW[:-1] + b',"trace":{"a":1}} ') == ENVELOPE


def test_an_envelope_is_written_as_its_row() -> None:
    assert encode_row(ENVELOPE) == ROW


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (ROW.replace(b'"seq":7,', b""), "journal row: Object missing required field `seq`"),
        (ROW.replace(b'"seq":7', b'"seq":"7"'), r"journal row\.seq: Expected `int`, got `str`"),
        (ROW.replace(b'{"message":"no"}', b"[]"), r"journal row\.payload: Expected `object`, got `array`"),
        (b"[]", "journal row: Expected `object`, got `array`"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
    ],
)
def test_a_damaged_row_is_refused_with_what_is_wrong(line: bytes, message: str) -> None:
    with pytest.raises(InvalidEvent, match=message):
        decode_row(line)


BIG = ROW.replace(b'{"message":"no"}', b'{"message":"no","size":' + b"9" * 5000 + b"}")
SURROGATE = ROW.replace(b'"no"', b'"\\ud83d"')


@pytest.mark.parametrize(
    "lines", [b"", ROW + b"\n", ROW + b" \n" + ROW + b"\n", ROW + b"\n" + BIG + b" \n" + SURROGATE + b"\n"]
)
def test_rows_that_are_read_together_are_those_read_one_by_one(lines: bytes) -> None:
    assert decode_rows(lines) == [decode_row(line) for line in lines.splitlines()]


def test_an_envelope_gives_its_fact_with_unknown_keys_ignored() -> None:
    envelope = msgspec.structs.replace(ENVELOPE, payload={"message": "no", "from_the_future": 1})
    assert decode_event(envelope) == Error(message="no")


@pytest.mark.parametrize(
    ("envelope", "message"),
    [
        (msgspec.structs.replace(ENVELOPE, type="NEW"), "NEW is not an event type that this version knows"),
        (msgspec.structs.replace(ENVELOPE, payload={}), "ERROR: Object missing required field `message`"),
        (msgspec.structs.replace(ENVELOPE, payload={"message": 1}), r"ERROR\.message: Expected `str`"),
    ],
)
def test_an_envelope_without_a_known_fact_is_refused(envelope: Envelope, message: str) -> None:
    with pytest.raises(InvalidEvent, match=message):
        decode_event(envelope)


@pytest.mark.parametrize("cls", EVENTS.values())
def test_every_class_of_the_union_refuses_a_version_that_is_no_number(cls: type[Event]) -> None:
    values = {field.name: "x" for field in msgspec.structs.fields(cls) if field.required}
    with pytest.raises(InvalidEvent, match=cls.TYPE):
        encode_payload(cls(**values, v="one"))


def test_codec_errors_are_of_one_root() -> None:
    with pytest.raises(SegueError) as caught:
        encode_json(object())
    assert caught.value.code == "invalid_event"
