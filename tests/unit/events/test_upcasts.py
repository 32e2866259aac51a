from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from segue.events import Envelope
from segue.events.codec import decode_row, decode_rows, encode_row
from segue.events.upcasts import UPCASTS, Upcasts


def envelope(**payload: Any) -> Envelope:
    return Envelope("evt_1", "chat_1", "local", 1, "ERROR", payload, "2026-11-29T12:00:00.000000Z")


def two_steps(upcasts: Upcasts) -> None:
    @upcasts.register("ERROR", 1)
    def named_message(payload: dict[str, Any]) -> dict[str, Any]:
        return {"message": payload["text"]}

    @upcasts.register("ERROR", 2)
    def with_code(payload: dict[str, Any]) -> dict[str, Any]:
        return payload | {"code": "unknown"}


def test_an_old_payload_goes_through_every_version_to_the_newest() -> None:
    upcasts = Upcasts()
    two_steps(upcasts)
    assert upcasts.apply(envelope(text="no")) == envelope(message="no", code="unknown", v=3)
    assert upcasts.apply(envelope(message="no", v=2)) == envelope(message="no", code="unknown", v=3)


def test_the_newest_payload_and_one_from_the_future_are_left_alone() -> None:
    upcasts = Upcasts()
    two_steps(upcasts)
    newest, future = envelope(message="no", code="x", v=3), envelope(v=9)
    assert upcasts.apply(newest) is newest
    assert upcasts.apply(future) is future


def test_other_types_are_left_alone() -> None:
    upcasts = Upcasts()
    two_steps(upcasts)
    other = msgspec.structs.replace(envelope(text="no"), type="SESSION_ERROR")
    assert upcasts.apply(other) is other


def test_a_step_is_registered_once() -> None:
    upcasts = Upcasts()
    two_steps(upcasts)
    with pytest.raises(ValueError, match="ERROR has an upcast from version 1"):
        two_steps(upcasts)


@pytest.fixture
def registered() -> Iterator[None]:
    two_steps(UPCASTS)
    yield
    UPCASTS.clear("ERROR")


@pytest.mark.usefixtures("registered")
def test_reading_a_row_applies_the_upcasts() -> None:
    assert decode_row(encode_row(envelope(text="no"))) == envelope(message="no", code="unknown", v=3)


@pytest.mark.usefixtures("registered")
def test_reading_rows_together_applies_the_upcasts() -> None:
    rows = encode_row(envelope(text="no")) + b"\n" + encode_row(envelope(message="no", v=2)) + b"\n"
    assert decode_rows(rows) == [envelope(message="no", code="unknown", v=3)] * 2
