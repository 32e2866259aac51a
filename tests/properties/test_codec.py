from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.events import Envelope, ToolResult
from segue.events.codec import decode_json, decode_row, encode_json, encode_payload, encode_row, row_bytes
from segue.events.json_text import read, whole_characters, write
from segue.events.json_values import to_json
from segue.stores.protocol import Draft

texts = st.text(st.characters(exclude_categories=())).map(whole_characters)
huge = st.builds(lambda n, power: n * 10**power + 1, st.integers(), st.integers(4_200, 9_900))
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | huge | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
keys = st.none() | st.booleans() | st.integers() | texts | st.tuples(st.integers()) | st.datetimes()
anything = st.recursive(
    json_values
    | st.floats()
    | st.binary()
    | st.datetimes()
    | st.decimals()
    | st.uuids()
    | st.timedeltas()
    | st.frozensets(st.integers() | texts)
    | st.builds(ValueError, texts)
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equal, of the same types, with the same order of keys and the same sign of zero."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if isinstance(left, float) else bool(left == right)


@given(json_values)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(decode_json(encode_json(value)), value)


@given(json_values)
def test_both_ways_write_the_same_bytes_and_read_the_same_value(value: Any) -> None:
    assert write(value) == encode_json(value)
    assert same(read(encode_json(value)), value)


@given(st.text(st.characters(exclude_categories=())))
def test_what_was_written_is_written_again_to_the_byte(text: str) -> None:
    written = encode_json([text, {text: text}])
    assert encode_json(decode_json(written)) == written


@given(json_values)
def test_a_fact_comes_back_as_it_was(value: Any) -> None:
    payload = decode_json(encode_payload(ToolResult(tool_call_id="c", result=value)))
    assert same(payload, {"tool_call_id": "c", "result": value})


@given(texts, texts, st.integers(1, 2**53), st.dictionaries(texts, json_values, max_size=4))
def test_a_row_comes_back_to_the_byte(identity: str, kind: str, seq: int, payload: dict[str, Any]) -> None:
    draft = Draft(identity, "local", kind, encode_json(payload), "now")
    line = row_bytes("chat_1", seq, draft)
    envelope = decode_row(line)
    assert envelope == Envelope(identity, "chat_1", "local", seq, kind, payload, "now")
    assert encode_row(envelope) == line
    assert b"\n" not in line


@given(anything)
def test_any_value_becomes_strict_json(value: Any) -> None:
    converted = to_json(value)
    assert same(decode_json(encode_json(converted)), converted)


@given(anything)
def test_converting_twice_changes_nothing_more(value: Any) -> None:
    assert same(to_json(to_json(value)), to_json(value))


@given(st.lists(st.integers(-9, 9) | st.booleans() | st.sampled_from(["1", "true", "0"]), unique=True))
def test_no_entry_of_a_mapping_is_lost(names: list[Any]) -> None:
    converted = to_json({name: str(name) for name in names})
    entries = converted.get("$pairs", list(converted.items())) if names else []
    assert sorted(item for _, item in entries) == sorted({name: str(name) for name in names}.values())


@given(st.decimals(allow_nan=False) | st.datetimes())
def test_numbers_and_times_keep_their_exact_text(value: Decimal | datetime) -> None:
    text = to_json(value)
    assert type(value)(text) == value if isinstance(value, Decimal) else datetime.fromisoformat(text) == value


@given(st.floats())
def test_python_reads_what_we_convert_without_nan_tokens(value: float) -> None:
    json.dumps(json.loads(encode_json(to_json(value))), allow_nan=False)
