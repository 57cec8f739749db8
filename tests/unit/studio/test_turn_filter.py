"""Expressions that filter turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.errors import UsageError
from live_eval.studio.turn_filter import FilterField, parse_filter

FIELDS = {
    "voice_to_voice": FilterField("number", lambda row: row["ms"]),
    "taste.kind": FilterField("number", lambda row: row["taste"]),
    "cue": FilterField("text", lambda row: row["cue"]),
    "reply": FilterField("text", lambda row: row["reply"]),
    "label": FilterField("texts", lambda row: row["labels"]),
    "flagged": FilterField("truth", lambda row: row["flagged"]),
}
COLUMNS = ("ms", "taste", "cue", "reply", "labels", "flagged")
ROWS: dict[str, dict[str, Any]] = {
    "slow": dict(zip(COLUMNS, (1500.0, 2.0, "sigh", "Oh no.", ["cold"], False), strict=True)),
    "quick": dict(zip(COLUMNS, (400.0, None, "sigh", "Fine.", [], True), strict=True)),
    "plain": dict(zip(COLUMNS, (None, 4.5, None, None, ["cold", "odd"], False), strict=True)),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("voice_to_voice > 1200 and cue == sigh", "slow"),
        ("voice_to_voice <= 400", "quick"),
        ("voice_to_voice>=-1", "slow quick"),
        ("taste.kind == 4.5", "plain"),
        ("taste.kind > .5", "slow plain"),
        ("taste.kind > -.5", "slow plain"),
        ("taste.kind != 2", "quick plain"),
        ("voice_to_voice == none", "plain"),
        ("cue != none", "slow quick"),
        ("cue == SIGH", "slow quick"),
        ("cue != sigh", "plain"),
        ('reply contains "oh NO"', "slow"),
        ("label == cold", "slow plain"),
        ("label != cold", "quick"),
        ("label == none", "quick"),
        ("label contains dd", "plain"),
        ("flagged", "quick"),
        ("not flagged", "slow plain"),
        ("flagged == false", "slow plain"),
        ("cue == sigh and flagged or label == odd", "quick plain"),
        ("cue == sigh and (flagged or label == cold)", "slow quick"),
        ("not not flagged", "quick"),
        ("NOT flagged AND cue == 'sigh'", "slow"),
        ("cue == 'none'", ""),
    ],
)
def test_an_expression_selects_turns(text: str, expected: str) -> None:
    test = parse_filter(text, FIELDS)
    assert [name for name, row in ROWS.items() if test(row)] == expected.split()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name, but the expression ends"),
        ("cue = sigh", "at 5, got '='; to compare, write =="),
        ("voice_to_vioce > 1", "unknown name 'voice_to_vioce' (did you mean voice_to_voice?) at 1"),
        ("x > 1", "unknown name 'x' at 1; known: voice_to_voice, taste.kind, cue"),
        ("voice_to_voice > sigh", "expected a number for voice_to_voice at 18, got 'sigh'"),
        ("voice_to_voice > nan", "expected a number"),
        ("voice_to_voice > '1'", "expected a number"),
        ("voice_to_voice >", "expected a value after >, but the expression ends"),
        (
            "voice_to_voice",
            "one of ==, !=, <, <=, >, >=, contains after voice_to_voice, but the expression ends",
        ),
        ("cue > sigh", "> applies to numbers, but cue is a text"),
        ("voice_to_voice contains 1", "contains applies to text"),
        ("flagged == maybe", "expected true or false for flagged at 12"),
        ("(flagged", "expected and, or, or ), but the expression ends"),
        ("flagged flagged", "expected and, or, or the end at 9"),
        ("flagged)", "at 8, got ')'"),
        ("flagged and", "expected a name, but the expression ends"),
        ("1 == 1", "expected a name at 1, got '1'"),
        ("none == none", "expected a name at 1"),
        ('cue == "sigh', "the quote does not end"),
        ("cue == __import__('os')", "expected and, or, or the end at 18"),
        ("(" * 40, "at most 30 nested parts"),
        ("not " * 240 + "flagged", "at most 30 nested parts"),
        ("a" * 1_001, "at most 1,000 characters, got 1,001"),
    ],
)
def test_an_invalid_expression_is_explained(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(text, FIELDS)
    assert message in str(caught.value)
    assert str(caught.value).startswith("where: ")


WORDS = st.sampled_from(
    [*FIELDS, "and", "or", "not", "(", ")", "==", ">", "contains", "none", "1", "'a'", "-"]
)


@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map(" ".join)))
def test_only_usage_errors_are_raised(text: str) -> None:
    try:
        test = parse_filter(text, FIELDS)
    except UsageError:
        return
    assert {test(row) for row in ROWS.values()} <= {True, False}
