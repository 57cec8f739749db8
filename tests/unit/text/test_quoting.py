"""Quotations end where they should, hide nothing, and read back unchanged."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.testing.judges import INJECTIONS
from live_eval.text.quoting import quoted

# Nothing that looks like an end: no quote at all, no bracket of markup, nothing that is not drawn.
STRICT = re.compile(r'"(?:[^"\\<>\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]|\\(?:[\\nrt]|u[0-9a-f]{4}))*"')


@given(st.text())
def test_quoted_text_can_be_parsed_back(text: str) -> None:
    assert json.loads(quoted(text)) == text
    assert STRICT.fullmatch(quoted(text))
    assert quoted(text).encode("utf-8")


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_injections_stay_inside_and_are_seen(text: str) -> None:
    quotation = quoted(text)
    assert json.loads(quotation) == text
    assert STRICT.fullmatch(quotation)
    assert STRICT.fullmatch(unicodedata.normalize("NFKC", quotation)), "some tokenizers normalise"
    drawn = quotation.replace("\\u", "")
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in drawn)


def test_invisible_characters_are_escaped() -> None:
    for code in (*range(0x40000), *range(0xE0000, 0xE1000)):  # other planes are unassigned or private
        quotation = quoted(chr(code))
        if quotation == f'"{chr(code)}"':
            assert unicodedata.category(chr(code))[0] not in "C", hex(code)
            assert STRICT.fullmatch(f'"{unicodedata.normalize("NFKD", chr(code))}"'), hex(code)


@pytest.mark.parametrize(
    "text",
    [
        "Ça va ? Мне жаль. お気の毒に。 ¡Ánimo! हाँ। שלום 가자 👍🙂",
        "It’s “fine” — really… 5 > 4? No: {a} (b) `c` 50 % & more",
    ],
)
def test_ordinary_text_stays_readable(text: str) -> None:
    assert quoted(text).replace("\\u003e", ">") == f'"{text}"'


def test_halves_of_characters_are_kept() -> None:
    assert quoted("\ud83d") == r'"\ud83d"'


def test_none_is_not_the_word() -> None:
    assert (quoted(None), quoted("null"), quoted("")) == ("null", '"null"', '""')
