"""Assertions on the trials of a duplex campaign."""

from __future__ import annotations

import pytest

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.turn_taking.outcomes import Rule
from live_eval.analysis.turn_taking.trial import TrialResult
from live_eval.analysis.turn_taking.trial_metrics import condition_metrics
from live_eval.campaigns.duplex.assertions import check_duplex, check_probes, parse_duplex_assertion
from live_eval.errors import UsageError
from tests.unit.analysis.turn_taking.test_outcomes import replies, says, talk
from tests.unit.campaigns.duplex.test_summary import interrupted, trial, void


def talks_on(number: int) -> TrialResult:
    """Return a reply from 2 s to 9 s that the user speaks over at 3 s."""
    talked = talk([says((0, 1000)), says((3000, 4000))], [replies((2000, 9000))])
    return trial("barge-in", "900 ms", number, talked, Rule.INTERRUPTION)


def check(expression: str, *trials: TrialResult) -> CheckedAssertion:
    found = [condition_metrics("clean", "barge-in", "900 ms", trials)] if trials else []
    [checked] = check_duplex([parse_duplex_assertion(expression)], found)
    return checked


STOPPED = [interrupted(number, 300 + number) for number in range(36)]


@pytest.mark.parametrize(
    ("expression", "holds", "value"),
    [
        ("barge_in.passed >= 90%", True, 90.0),
        ("barge-in.passed >= 91%", False, 90.0),
        ("barge_in.yielded > 89%", True, 90.0),
        ("barge_in.kept_talking <= 10 %", True, 10.0),
        ("barge_in.stop.p50 < 400ms", True, 317.5),
        ("barge_in.audible_stop.p50 < 0.3s", False, 317.5),
        # Four of 40 replies never stopped: the 95th percentile of all 40 is unknown.
        ("barge_in.stop.p95 < 400ms", False, 333.25),
        ("barge_in.stop.max < 10s", False, 335.0),
        ("barge_in.stop.p95 > 300ms", True, 333.25),
    ],
)
def test_shares_and_durations_are_checked(expression: str, holds: bool, value: float) -> None:
    checked = check(expression, *STOPPED, *(talks_on(40 + number) for number in range(4)), void(50))
    assert (checked.holds, checked.value) == (holds, value)
    assert checked.point == "clean"


def test_replies_that_never_stopped_are_named() -> None:
    checked = check("barge_in.stop.p95 < 400ms", *STOPPED, *(talks_on(40 + number) for number in range(4)))
    assert checked.in_words == (
        "barge_in.stop.p95 < 400ms: FAILS at clean: barge_in.stop.p95 is 333.2 ms (n 36, 4 trials without "
        "this duration, which counts as beyond the bound)"
    )


@pytest.mark.parametrize(
    ("expression", "trials", "reason"),
    [
        ("barge_in.passed >= 0%", [], "cannot be checked: no trial of the probe was recorded"),
        ("pause.passed >= 0%", STOPPED, "cannot be checked: no trial of the probe was recorded"),
        ("barge_in.passed >= 0%", [void(1)], "cannot be checked"),
        ("barge_in.trigger.p50 < 1s", STOPPED, "cannot be checked: the probe has no trigger"),
        ("barge_in.stop.p95 < 1s", STOPPED[:9], "cannot be checked: fewer than 30 values"),
    ],
)
def test_an_assertion_without_a_value_fails(expression: str, trials: list[TrialResult], reason: str) -> None:
    checked = check(expression, *trials)
    assert not checked
    assert checked.value is None
    assert checked.reason.startswith(reason)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("barge_in >= 90%", "expected PROBE.OUTCOME >= SHARE"),
        ("bargein.passed >= 90%", r"unknown probe 'bargein' \(did you mean barge-in\?\)"),
        ("barge_in.yields >= 90%", r"unknown outcome 'yields' \(did you mean yielded\?\)"),
        ("barge_in.natural_end >= 90%", "unknown outcome 'natural_end'"),
        ("barge_in.passed >= 90ms", "expected a share in %"),
        ("barge_in.stop.p95 < 90%", "expected a time in ms or s"),
        ("barge_in.stop.p99 < 90ms", "unknown statistic 'p99'"),
        ("barge_in.halt.p95 < 90ms", "unknown duration 'halt'"),
        ("barge_in.passed >= 90", "expected a share in %, got '90'"),
    ],
)
def test_a_mistake_is_named(expression: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_duplex_assertion(expression)


def test_an_assertion_on_a_probe_that_is_not_run_is_refused() -> None:
    assertion = parse_duplex_assertion("barge_in.passed >= 90%")
    check_probes([assertion], ["barge-in", "pause"])
    check_probes([assertion], [])
    with pytest.raises(UsageError, match="the campaign does not run the probe barge-in"):
        check_probes([assertion], ["pause"])
