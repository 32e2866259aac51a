"""What can be found in a text: the words it is indexed under, and the query that finds them.

FTS5's `unicode61` tokenizer makes the words: it folds case and accents and splits at punctuation, so that parts of
paths and of snake_case names are words. Two things are added. Characters of scripts that put no spaces between words,
and emoji, are separated, each a word of its own, and looked for as phrases: so any piece of such a text is found, from
one character on. The parts of camelCase names are indexed beside the text.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from segue.errors import UsageError

TOKENIZER = "unicode61 remove_diacritics 2 categories 'L* M* N* Co Cn So'"
MOST_TERMS = 64
"""Words and phrases of one query. FTS5 takes no more than 256."""
SEPARATOR = "\x1f"
"""Between characters that are words of their own; in no indexed text, so that taking it out gives the text back."""
BEGIN, END = "\x02", "\x03"
"""Around what was found, in what SQLite returns; in no indexed text."""

_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RARE_HAN = "\U00020000-\U0003ffff"
_KANA = "\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\U0001b000-\U0001b16f"
_HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
_SOUTH_EAST = "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua980-\ua9ff\uaa60-\uaadf"
"""Thai, Lao, Tibetan, Myanmar, Khmer, Tai, Javanese, Cham."""
_EMOJI = "\u231a-\u23ff\u25a0-\u27bf\u2934-\u2bff\u3297\u3299\U0001f000-\U0001faff"
_ALONE = re.compile(f"[{_HAN}{_RARE_HAN}{_KANA}{_HANGUL}{_SOUTH_EAST}{_EMOJI}]+")
_WIDE = re.compile("[\uff00-\uffef]+")
_UNSEEN = {place: " " for place in (*range(0x20), 0x7F) if chr(place) not in "\t\n"}
_LONE = re.compile("[\ud800-\udfff]")
_STYLE = re.compile("[\ufe00-\ufe0f]")
"""How a character looks: it is found with and without."""

_NAME = re.compile(r"[A-Za-z0-9]{3,}")
_LONGEST_NAME = 64
"""A longer run of letters and digits is data, not a name."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TERM = re.compile(r'(-?)"([^"]*)(?:"|$)|(\S+)')


class Query(msgspec.Struct, frozen=True):
    match: str
    """The FTS5 expression."""
    wanted: list[str]
    """The words and phrases that must be there, as they were written."""


def cleaned(text: str) -> str:
    """Composed characters in their usual width, and no control characters or lone surrogates."""
    if text.isascii():
        return text.translate(_UNSEEN)
    text = _STYLE.sub("", _LONE.sub("\ufffd", text.translate(_UNSEEN)))
    return unicodedata.normalize("NFC", _WIDE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text))


def separated(text: str) -> str:
    """A cleaned text with its words ready for the tokenizer; `shown` gives the text back."""
    return text if text.isascii() else _ALONE.sub(_spread, text)


def shown(text: str) -> str:
    return text.replace(SEPARATOR, "")


def parts(text: str) -> str:
    """The parts of all camelCase names in it, in no order: `getUserName` gives `get User Name`."""
    names = {name for name in _NAME.findall(text) if not name.islower() and len(name) <= _LONGEST_NAME}
    split = (_HUMP.sub(" ", name) for name in sorted(names))
    return "\n".join(words for words in split if " " in words)


def parse(query: str) -> Query:
    """What a person typed: words, all of them wanted; "phrases"; -words that must not be there; beginnings* of words.

    The last word may be the beginning of one, unless a space or a quote ends it. Any text is safe.
    Raises `UsageError` when there is nothing to look for, or too much.
    """
    wanted: list[tuple[str, bool]] = []
    unwanted: list[tuple[str, bool]] = []
    found = [term for term in map(_term, _TERM.finditer(cleaned(query))) if term is not None]
    if len(found) > MOST_TERMS:
        raise UsageError(f"these are {len(found)} words: search for {MOST_TERMS} at most")
    for at, (excluded, text, begins, bare) in enumerate(found):
        last = bare and at == len(found) - 1 and len(text) > 1 and not query[-1:].isspace()
        (unwanted if excluded else wanted).append((text, begins or (last and not excluded)))
    if not wanted:
        raise UsageError('nothing to search for: give at least one word, or a "phrase", without a minus')
    match = " AND ".join(_expression(*term) for term in wanted)
    for term in unwanted:
        match = f"({match}) NOT {_expression(*term)}"
    return Query(match, [text for text, _ in wanted])


def _term(found: re.Match[str]) -> tuple[bool, str, bool, bool] | None:
    """Whether it is excluded, its text, whether it stands for all words that begin so, whether it is without quotes.

    None when there is no word in it.
    """
    minus, phrase, word = found.groups()
    if word is None:
        term = (bool(minus), phrase, False, False)
    else:
        excluded = word.startswith("-") and not word.startswith("--")
        text = word[1:] if excluded else word
        term = (excluded, text.rstrip("*").replace('"', " "), text.endswith("*"), True)
    return term if any(map(_in_a_word, term[1])) else None


def _in_a_word(character: str) -> bool:
    """As the tokenizer sees it."""
    category = unicodedata.category(character)
    return category[0] in "LN" or category in ("Co", "Cn", "So")


def _expression(text: str, begins: bool) -> str:
    either = [text, _HUMP.sub(" ", text)] if _HUMP.search(text) else [text]
    strings = [f'"{separated(words)}"{" *" if begins else ""}' for words in either]
    return strings[0] if len(strings) == 1 else f"({' OR '.join(strings)})"


def _spread(run: re.Match[str]) -> str:
    return f"{SEPARATOR}{SEPARATOR.join(run[0])}{SEPARATOR}"
