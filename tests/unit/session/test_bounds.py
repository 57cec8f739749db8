"""Limits on the strings and data that an endpoint sends."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from live_eval.dialect import (
    EndpointProblem,
    Event,
    InputTranscript,
    RateLimit,
    RateLimits,
    ReplyText,
    ResponseDone,
    SessionReady,
)
from live_eval.errors import FailureKind
from live_eval.session.bounds import (
    MOST_LIMITS,
    NAME_CHARACTERS,
    TEXT_CHARACTERS,
    WORDS_CHARACTERS,
    bounded,
    bounded_body,
    bounded_name,
)
from live_eval.timing import ResponseStatus

LONG = "x" * 1_000_000


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    cut = {bounded_name(LONG), bounded_name(f"{LONG}y")}
    assert len(cut) == 2
    assert {len(name) for name in cut} == {NAME_CHARACTERS}
    assert bounded_name("\ud800" * 300) != bounded_name("\ud800" * 301)


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (SessionReady(LONG, LONG), 2 * NAME_CHARACTERS),
        (ResponseDone(LONG, ResponseStatus.FAILED, LONG), NAME_CHARACTERS + WORDS_CHARACTERS),
        (
            EndpointProblem(FailureKind.CLOSED, LONG, True, LONG),
            NAME_CHARACTERS + WORDS_CHARACTERS + len("closed"),
        ),
        (InputTranscript(LONG, True, LONG), NAME_CHARACTERS + TEXT_CHARACTERS),
        (ReplyText("r", LONG), 1 + TEXT_CHARACTERS),
    ],
)
def test_the_strings_of_an_event_are_cut(event: Any, most: int) -> None:
    kept = bounded(event)
    values = [getattr(kept, field.name) for field in fields(kept)]
    assert sum(len(value) for value in values if isinstance(value, str) and value != "failed") == most
    assert bounded(kept) is kept


def test_the_strings_of_every_event_are_bounded() -> None:
    for kind in get_args(Event):
        texts = [field.name for field in fields(kind) if field.type in ("str", "str | None")]
        made = object.__new__(kind)
        for field in fields(kind):
            object.__setattr__(made, field.name, LONG if field.name in texts else ())
        kept = bounded(made)
        assert all(len(getattr(kept, name)) <= TEXT_CHARACTERS for name in texts), kind


def test_the_number_and_names_of_rate_limits_are_bounded() -> None:
    kept = bounded(RateLimits(tuple(RateLimit(LONG, 1, 1, 1) for _ in range(1_000))))
    assert len(kept.limits) == MOST_LIMITS
    assert len(kept.limits[0].name) == NAME_CHARACTERS


def test_a_message_is_logged_with_truncated_strings() -> None:
    kept = bounded_body({"type": "x", "of": [{"deep": LONG}], LONG: None, "n": 7})
    assert (kept["type"], kept["n"]) == ("x", 7)
    assert kept["of"][0]["deep"].endswith("… (1000000 characters)")
    assert max(map(len, kept)) == NAME_CHARACTERS
