from __future__ import annotations

import re
from datetime import UTC, datetime

from segue.ids import new_id, new_session_id, utc_now


def test_an_id_is_its_prefix_and_16_characters_of_base_32() -> None:
    assert re.fullmatch(r"evt_[a-z2-7]{16}", new_id("evt"))


def test_a_session_id_is_its_prefix_and_8_characters_of_base_32() -> None:
    assert re.fullmatch(r"adhoc_[a-z2-7]{8}", new_session_id())


def test_all_32_characters_occur_in_ids() -> None:
    assert {character for _ in range(200) for character in new_id("x")[2:]} == set(
        "abcdefghijklmnopqrstuvwxyz234567"
    )


def test_the_time_now_is_rfc_3339_in_utc_with_microseconds() -> None:
    before = datetime.now(UTC)
    text = utc_now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert before <= datetime.fromisoformat(text) <= datetime.now(UTC)
