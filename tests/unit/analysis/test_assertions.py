"""The grammar of assertions, which every campaign shares, and the result of a check."""

import pytest

from live_eval.analysis.assertions import (
    MS,
    PERCENT,
    CheckedAssertion,
    check_known,
    check_unit,
    parse_bound,
    too_few_planned,
)
from live_eval.analysis.statistics.intervals import Interval
from live_eval.errors import UsageError

HALF = parse_bound("barge_in . passed >= 50 %", "NAME >= SHARE")


def test_a_bound_has_a_name_a_comparison_and_a_unit() -> None:
    assert (HALF.name, HALF.metric, HALF.statistic) == ("barge_in.passed", "barge_in", "passed")
    assert (HALF.comparison, HALF.bound, HALF.unit, HALF.is_upper) == (">=", 50.0, PERCENT, False)
    assert [HALF.holds_for(value) for value in (49.9, 50.0)] == [False, True]


def test_a_malformed_assertion_is_refused_with_the_expected_form() -> None:
    for text, why in [("fast", "expected NAME >= SHARE"), ("a > 5kg", "of ms, s, % or none, got 'kg'")]:
        with pytest.raises(UsageError, match=why):
            parse_bound(text, "NAME >= SHARE")
    with pytest.raises(UsageError, match="expected a time in ms or s, got '50 %'"):
        check_unit(HALF, MS)
    with pytest.raises(UsageError, match=r"unknown probe 'bargein' \(did you mean barge-in\?\)"):
        check_known("x", "probe", "bargein", ["pause", "barge-in"])


def test_a_result_has_the_unit_of_its_bound() -> None:
    checked = CheckedAssertion(
        assertion=HALF, holds=True, value=60.0, interval=Interval(51.0, 70.0), n=40, point="clean"
    )
    assert checked.in_words == (
        "barge_in . passed >= 50 %: holds at clean: barge_in.passed is 60.0 % "
        "(95 % interval 51.0 to 70.0, n 40)"
    )
    found = checked.as_json()
    assert (found["value_percent"], found["interval_percent"], found["n"]) == (60.0, [51.0, 70.0], 40)


def test_percentiles_of_too_few_planned_values_are_noted() -> None:
    texts = ["a.p95 < 1s", "a.p90 < 1s", "a.p50 < 1s", "a.mean < 1s", "failed < 2%"]
    assertions = [parse_bound(text, "") for text in texts]
    assert list(too_few_planned(assertions, lambda _: 15)) == [
        "a.p95 < 1s: will fail: p95 of fewer than 30 values (15 planned)"
    ]
    assert list(too_few_planned(assertions, lambda each: 30 if each.statistic == "p95" else 0)) == []
