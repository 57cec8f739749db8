"""Assertions about latencies: syntax, results and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.latency.assertions import check_assertion, parse_assertion
from live_eval.analysis.latency.campaign_latencies import (
    OUR_FAILURE,
    CampaignLatency,
    campaign_latency,
    unanswered_turns,
)
from live_eval.analysis.statistics.distribution import Distribution, distribution
from live_eval.analysis.statistics.intervals import Estimate, Interval
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Failure
from tests.support.campaigns import a_case, turns_at
from tests.support.records import TurnPlan, spoken_turn

NO_VALUES = Estimate(None, 0, 0, reason="no values")
LOST = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, "no response within 30 s"))


def latency(
    n: int = 40,
    *,
    uncertain: int = 0,
    unanswered: int = 0,
    missing: Mapping[str, int] | None = None,
    **changes: Estimate,
) -> CampaignLatency:
    """Return a latency with some statistics replaced."""
    estimates = {
        "mean": Estimate(900.0, n, n),
        "p50": Estimate(880.0, n, n, Interval(860.0, 901.5)),
        "p90": Estimate(1000.0, n, n),
        "p95": Estimate(1100.0, n, n),
        "p99": Estimate(None, n, n, reason="fewer than 150 values"),
        "max": Estimate(1150.0, n, 0),
    }
    return CampaignLatency(
        measured=Distribution(
            values=(1100.0,) * n, estimates={**estimates, **changes}, missing=missing or {}
        ),
        without_flagged=distribution([]),
        uncertain=uncertain,
        unanswered=unanswered,
    )


def check(expression: str, n: int = 40, **changes: Any) -> CheckedAssertion:
    return check_assertion(parse_assertion(expression), latency(n, **changes), error_bar_ms=0.42)


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "comparison", "bound_ms"),
    [
        ("voice_to_voice.p95 < 1200ms", "voice_to_voice", "p95", "<", 1200),
        ("first_byte.mean<=1.2s", "first_byte", "mean", "<=", 1200),
        ("  endpointing . p50  >  -3.5 ms ", "endpointing", "p50", ">", -3.5),
        ("voice_to_voice_from_intended.max >= 1e3ms", "voice_to_voice_from_intended", "max", ">=", 1000),
    ],
)
def test_an_assertion_has_a_metric_a_statistic_and_a_bound(
    text: str, metric: str, statistic: str, comparison: str, bound_ms: float
) -> None:
    parsed = parse_assertion(text)
    assert (parsed.metric, parsed.statistic, parsed.comparison) == (metric, statistic, comparison)
    assert parsed.bound == bound_ms
    assert parsed.expression == text.strip()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected METRIC.STATISTIC < TIME, for example 'voice_to_voice.p95 < 1200ms'"),
        ("fast", "expected METRIC.STATISTIC < TIME"),
        ("voice_to_voice < 3ms", "expected METRIC.STATISTIC < TIME"),
        ("voice_to_voice.p95 == 3ms", "expected METRIC.STATISTIC < TIME"),
        ("voice_to_voice.p95 < 3ms and more", "expected METRIC.STATISTIC < TIME"),
        (
            "voice2voice.p95 < 3ms",
            r"unknown metric 'voice2voice' \(did you mean voice_to_voice\?\)",
        ),
        ("wer.p95 < 3ms", "unknown metric 'wer'; expected one of connect, endpointing, first_byte"),
        ("first_byte.p75 < 3ms", r"unknown statistic 'p75'; expected one of mean, p50, p90, p95, p99, max"),
        ("first_byte.p95 < 1200", "expected a time in ms or s, got '1200'"),
        ("first_byte.p95 < 3min", "of ms, s, % or none, got 'min'"),
        ("first_byte.p95 < 1,2 s", "expected a number after <, got '1,2s'"),
        ("first_byte.p95 < nan ms", "expected a number after <, got 'nanms'"),
    ],
)
def test_a_malformed_assertion_is_refused_with_the_expected_form(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_assertion(text)
    assert repr(text) in str(refused.value)


def test_an_assertion_holds_if_the_value_satisfies_the_bound() -> None:
    assert check("voice_to_voice.p50 < 881ms")
    assert not check("voice_to_voice.p50 < 880ms")
    assert check("voice_to_voice.p50 <= 880ms")
    assert check("voice_to_voice.p50 > 0.5s")
    assert not check("voice_to_voice.max < 1.15s")


def test_a_result_is_printed_with_its_value_interval_and_error_bar() -> None:
    assert check("voice_to_voice.p50 < 1s").in_words == (
        "voice_to_voice.p50 < 1s: holds: voice_to_voice.p50 is 880.0 ms "
        "(95 % interval 860.0 to 901.5, n 40, error bar 0.4 ms)"
    )
    assert repr(check("voice_to_voice.p50 < 0.5s")).startswith("<voice_to_voice.p50 < 0.5s: FAILS: ")


def test_an_assertion_on_a_withheld_value_fails() -> None:
    for expression in ("first_byte.p99 < 9s", "first_byte.p99 > 0ms"):
        result = check(expression)
        assert not result
        assert result.value is None
        assert "has no value (n 40, error bar 0.4 ms, cannot be checked: fewer than 150" in result.in_words


def test_the_reason_for_a_missing_interval_differs_from_the_reason_of_the_verdict() -> None:
    few = Estimate(880.0, 7, 7, reason="fewer than 8 turns")
    assert check("first_byte.p50 < 9s", p50=few).reason == "no interval: fewer than 8 turns"


def test_without_values_the_reasons_for_missing_latencies_are_named() -> None:
    result = check("first_byte.p50 < 9s", n=0, p50=NO_VALUES, missing={"no audible sample": 3})
    assert result.reason == "cannot be checked: no values, no audible sample (3 turns)"


def test_without_values_turns_with_an_uncertain_end_are_named() -> None:
    result = check("first_byte.p50 < 9s", n=0, p50=NO_VALUES, uncertain=2)
    assert result.reason == (
        "cannot be checked: no values, the end of the user's speech is uncertain in 2 turns"
    )


@pytest.mark.parametrize(
    ("expression", "unanswered", "holds"),
    [
        ("first_byte.p95 < 2s", 2, True),  # at most one in twenty of 42
        ("first_byte.p95 < 2s", 3, False),
        ("first_byte.p50 < 2s", 39, True),
        ("first_byte.p50 < 2s", 40, False),
        ("first_byte.mean < 2s", 1, False),
        ("first_byte.max < 2s", 1, False),
        ("first_byte.p95 > 1s", 30, True),
    ],
)
def test_turns_without_an_answer_count_as_beyond_an_upper_bound(
    expression: str, unanswered: int, holds: bool
) -> None:
    turns = [*turns_at([1500.0] * 40), *(spoken_turn(a_case(50 + lost), LOST) for lost in range(unanswered))]
    result = check_assertion(
        parse_assertion(expression), campaign_latency("first_byte", turns), error_bar_ms=None
    )
    assert result.holds is holds
    assert ("failed or had no answer" in result.reason) is not holds


def test_a_percentile_ranks_slow_turns_before_those_without_an_answer() -> None:
    turns = [*turns_at([500.0] * 91 + [5000.0] * 4), *(spoken_turn(a_case(200 + n), LOST) for n in range(5))]
    figures = campaign_latency("first_byte", turns)
    assert figures.measured["p95"].value == 500.0
    assert figures.with_unanswered("p95") is None  # of 100 turns, the 95th is slow and the 96th has no answer
    assert not check_assertion(parse_assertion("first_byte.p95 < 1200ms"), figures, error_bar_ms=None)
    fewer = campaign_latency("first_byte", turns[:-2])
    result = check_assertion(parse_assertion("first_byte.p95 < 1200ms"), fewer, error_bar_ms=None)
    assert result.value == 500.0
    assert not result
    assert result.reason.endswith("counts as beyond the bound; including these, the value is 5000.0 ms")


def test_turns_that_share_a_session_are_not_missing_a_connection() -> None:
    missing = {"an earlier turn opened the session": 90, "the turn failed": 1}
    assert unanswered_turns("connect", missing) == 1


def test_turns_of_a_live_eval_process_that_died_are_excluded() -> None:
    died = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.PROCESS_DIED, "signal 9"))
    turns = [*turns_at([500.0] * 9), spoken_turn(a_case(50), died)]
    figures = campaign_latency("first_byte", turns)
    assert figures.measured.missing == {OUR_FAILURE: 1}
    assert check_assertion(parse_assertion("first_byte.max < 2s"), figures, error_bar_ms=None)
