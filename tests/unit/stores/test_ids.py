from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import InvalidSessionId
from segue.stores.ids import check_session_id, folder_of, id_of


def _is_valid(text: str) -> bool:
    try:
        return check_session_id(text) == text
    except InvalidSessionId:
        return False


IDS = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=128).filter(_is_valid)


@given(IDS)
def test_a_folder_names_its_id(session_id: str) -> None:
    assert id_of(folder_of(session_id)) == session_id


@given(IDS, IDS)
def test_two_ids_have_folders_that_differ_in_more_than_case(one: str, other: str) -> None:
    assert (folder_of(one).casefold() == folder_of(other).casefold()) == (one == other)


@given(IDS)
def test_a_folder_name_fits_any_file_system(session_id: str) -> None:
    assert len(folder_of(session_id)) <= 161
    assert folder_of(session_id) == folder_of(session_id).lower()


def test_an_id_in_small_letters_is_its_folder() -> None:
    assert folder_of("adhoc_3f9k-2.x") == "adhoc_3f9k-2.x"


def test_capitals_become_a_mask() -> None:
    assert folder_of("MyId") == "myid+5"


@pytest.mark.parametrize(
    "folder", ["", ".git", ".new-0123", ".deleted-0", "A", "a+0", "a+00", "a+2", "a+x", "1+1", "con"]
)
def test_other_names_are_no_sessions(folder: str) -> None:
    assert id_of(folder) is None
