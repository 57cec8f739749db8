"""Texts that differ only in typography have the same words."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from live_eval.text.wording import natural_order, plain_typography


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("I’ll", "I'll"),
        ("Iʼm, it´s, ‘so’", "I'm, it's, 'so'"),
        ("“Yes” «no» „so“", '"Yes" "no" "so"'),
        ("mother‑in‐law, 3–4", "mother-in-law, 3-4"),
        ("well—yes", "well - yes"),
        ("well — yes", "well - yes"),
        ("Hm…", "Hm..."),
        ("a\u00a0b\u2009c\n d ", "a b c d"),
        ("so\u00adlong\u200b", "solong"),
        ("cafe\u0301", "café"),
        ("ﬁne ＯＫ", "fine OK"),
        ("Ça va? ÉTÉ!", "Ça va? ÉTÉ!"),
    ],
)
def test_typography_becomes_plain(text: str, plain: str) -> None:
    assert plain_typography(text) == plain


@given(st.text())
@example("\N{SUBSCRIPT MINUS}")  # its compatibility form is a minus sign
def test_plain_text_stays_unchanged_in_any_unicode_form(text: str) -> None:
    plain = plain_typography(text)
    assert plain_typography(plain) == plain
    assert plain_typography(unicodedata.normalize("NFD", text)) == plain_typography(
        unicodedata.normalize("NFC", text)
    )


def test_numbers_of_any_length_are_ordered_by_value() -> None:
    names = ["id_9", "id_0010", "id_1" + "0" * 5000, "id_x"]
    assert sorted(names, key=natural_order) == names
