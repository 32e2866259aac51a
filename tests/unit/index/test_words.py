from __future__ import annotations

import sqlite3

import pytest

from segue.errors import UsageError
from segue.index.words import MOST_TERMS, TOKENIZER, cleaned, parse, parts, separated, shown

TEXTS = {
    "prose": "The roof leaks; the members' meeting decides.",
    "accents": "Café naïve Ångström cafe\u0301 straße",
    "names": "see getUserName in src/segue/index.py and parse_HTTP_header, GitHub #12",
    "chinese": "会议记录：屋顶漏水，需要修理。",
    "japanese": "屋根が漏れています。ｶﾀｶﾅ ＡＢＣ",
    "korean": "지붕이 샙니다",
    "thai": "หลังคารั่วเมื่อวาน",
    "hindi": "छत टपक रही है",
    "emoji": "party 🎉👍🏽 ❤️ 👨‍👩‍👧",
    "odd": "a\x00b \x1funit\x02 half \ud83d rest",
    "nothing": "",
}


def finding(query: str) -> set[str]:
    """Which of the texts a query finds, with the tokenizer of the index."""
    database = sqlite3.connect(":memory:")
    database.execute(
        f'CREATE VIRTUAL TABLE t USING fts5 (name UNINDEXED, text, parts, tokenize = "{TOKENIZER}")'
    )
    for name, text in TEXTS.items():
        clean = cleaned(text)
        database.execute("INSERT INTO t VALUES (?, ?, ?)", (name, separated(clean), parts(clean)))
    found = database.execute("SELECT name FROM t WHERE t MATCH ?", (parse(query).match,)).fetchall()
    database.close()
    return {name for (name,) in found}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("roof", {"prose"}),
        ("ROOF leaks", {"prose"}),
        ("leaks roof", {"prose"}),
        ("roof naive", set()),
        ('"the members"', {"prose"}),
        ('"members the"', set()),
        ('"roof leaks" meeting', {"prose"}),
        ('"roof leaks', {"prose"}),
        ("cafe", {"accents"}),
        ("CAFÉ", {"accents"}),
        ("angstrom", {"accents"}),
        ("mem", {"prose"}),
        ("mem ", set()),
        ('"mem"', set()),
        ("mem* roof", {"prose"}),
        ("mem roof", set()),
        ("the -roof", set()),
        ("see -roof", {"names"}),
        ('see -"roof leaks"', {"names"}),
        ("getUserName", {"names"}),
        ("getusername", {"names"}),
        ("user", {"names"}),
        ("userName", {"names"}),
        ("get_user_name", {"names"}),
        ("github", {"names"}),
        ("hub", {"names"}),
        ("http", {"names"}),
        ("parse_http_header", {"names"}),
        ("index.py", {"names"}),
        ("segue/index", {"names"}),
        ("漏", {"chinese", "japanese"}),
        ("漏水", {"chinese"}),
        ("屋顶漏", {"chinese"}),
        ("会议 修理", {"chinese"}),
        ("水漏", set()),
        ("カタカナ", {"japanese"}),
        ("ABC", {"japanese"}),
        ("ています", {"japanese"}),
        ("붕", {"korean"}),
        ("지붕", {"korean"}),
        ("รั่ว", {"thai"}),
        ("คา", {"thai"}),
        ("วันนี้", set()),
        ("टपक", {"hindi"}),
        ("🎉", {"emoji"}),
        ("👍", {"emoji"}),
        ("❤", {"emoji"}),
        ("❤️", {"emoji"}),
        ("👨‍👩‍👧", {"emoji"}),
        ("half", {"odd"}),
        ("unit", {"odd"}),
    ],
)
def test_a_query_finds_these_texts(query: str, names: set[str]) -> None:
    assert finding(query) == names


@pytest.mark.parametrize("name", TEXTS)
def test_an_indexed_text_is_given_back(name: str) -> None:
    clean = cleaned(TEXTS[name])
    assert shown(separated(clean)) == clean


@pytest.mark.parametrize(
    "query",
    [
        "roof AND leaks",
        "OR",
        "NOT roof",
        "NEAR(roof leaks, 5)",
        "text:roof",
        "^roof",
        "roof^2",
        "{text} : roof",
        "roof + leaks",
        'roof" OR "leaks',
        '""roof""',
        "'; DROP TABLE t; --",
        "roof\x00leaks",
        "roof\x02\x03\x1f",
        "\ud83d roof",
        "roof) OR (leaks",
        "a" * 10_000,
        "漏" * 10_000,
        "roof* * ** *roof",
        "--force roof",
        "%s ? :match",
        "🎉" * 100,
    ],
)
def test_no_query_is_an_error_of_the_database(query: str) -> None:
    assert finding(query) <= set(TEXTS)


@pytest.mark.parametrize("query", ["", " ", '"', '""', "-roof", '-"a b"', "*", "- -", "&&", "\x00", "…"])
def test_a_query_without_a_word_says_what_to_do(query: str) -> None:
    with pytest.raises(UsageError, match="give at least one word"):
        parse(query)


def test_a_query_of_too_many_words_says_how_many_there_may_be() -> None:
    with pytest.raises(UsageError, match="these are 65 words: search for 64 at most"):
        parse("word " * (MOST_TERMS + 1))


def test_as_many_words_as_are_allowed_are_found() -> None:
    assert finding("roof " * MOST_TERMS) == {"prose"}


def test_parts_are_those_of_names_with_humps_each_once() -> None:
    assert (
        parts("getUserName, HTTPServer; getUserName plain UPPER Title " + "aB" * 40)
        == "HTTP Server\nget User Name"
    )
