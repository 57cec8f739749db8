"""Check assertions on turn-taking, such as ``barge_in.passed >= 90%`` or ``barge_in.stop.p95 < 400ms``.

A value covers all conditions of a probe, excluding void trials. An assertion without a value fails. For an
upper bound on a duration, trials without the duration (the reply never stopped) rank last.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.analysis.assertions import (
    MS,
    PERCENT,
    Assertion,
    CheckedAssertion,
    check_estimate,
    check_known,
    check_unit,
    failure_with_lost,
    parse_bound,
)
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.turn_taking.outcomes import DURATIONS, Outcome
from live_eval.analysis.turn_taking.trial import last_attempts
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics, condition_metrics, share_of
from live_eval.campaigns.duplex.probes import OWN, PROBES
from live_eval.errors import UsageError
from live_eval.text.wording import counted

__all__ = ["check_duplex", "check_probes", "parse_duplex_assertion", "probe_of"]

_FORM = (
    "PROBE.OUTCOME >= SHARE or PROBE.DURATION.STATISTIC < TIME, for example 'barge_in.passed >= 90%' or "
    "'barge_in.stop.p95 < 400ms'"
)
_PASSED = "passed"
_SHORT = {"stop": "audible_stop", "latency": "response_latency"}
_STATISTICS = ("p50", "p90", "p95", "max")


def parse_duplex_assertion(text: str) -> Assertion:
    """Parse ``PROBE.OUTCOME >= SHARE`` or ``PROBE.DURATION.STATISTIC < TIME``.

    OUTCOME is ``passed`` or the name of an outcome; DURATION is one of `DURATIONS`, or the short form
    ``stop`` or ``latency``. Underscores may replace the hyphens of a probe.

    Raises:
        UsageError: The text is not a valid assertion.
    """
    assertion = parse_bound(text, _FORM)
    probe, *rest = assertion.name.split(".")
    check_known(text, "probe", _hyphened(probe), [*PROBES, OWN])
    if len(rest) == 1:
        outcomes = [_PASSED, *(each.value for each in Outcome if not each.void)]
        check_known(text, "outcome", rest[0], outcomes)
        check_unit(assertion, PERCENT)
    elif len(rest) == 2:
        check_known(text, "duration", rest[0], [*_SHORT, *DURATIONS])
        check_known(text, "statistic", rest[1], list(_STATISTICS))
        check_unit(assertion, MS)
    else:
        raise UsageError(f"assertion {text!r}: expected {_FORM}")
    return assertion


def check_probes(assertions: Sequence[Assertion], probes: Sequence[str]) -> None:
    """Check that the campaign runs the probes of all assertions.

    Raises:
        UsageError: The campaign does not run the probe of an assertion.
    """
    for assertion in assertions:
        probe = probe_of(assertion)
        if probes and probe not in probes:
            raise UsageError(
                f"assertion {assertion.expression!r}: the campaign does not run the probe {probe}"
            )


def check_duplex(
    assertions: Sequence[Assertion], conditions: Sequence[ConditionMetrics]
) -> list[CheckedAssertion]:
    """Check assertions in each run of a campaign.

    Args:
        assertions: Assertions parsed by `parse_duplex_assertion`.
        conditions: Metrics of each condition in each run.

    Returns:
        For each assertion, in order, one result per run; a single failure if there are no runs.
    """
    runs = list(dict.fromkeys(each.run for each in conditions)) or [""]
    return [
        _check(
            assertion,
            run,
            [each for each in conditions if each.run == run and each.probe == probe_of(assertion)],
        )
        for assertion in assertions
        for run in runs
    ]


def _check(assertion: Assertion, run: str, conditions: Sequence[ConditionMetrics]) -> CheckedAssertion:
    trials = [trial for each in conditions for trial in each.trials]
    if not trials:
        return check_estimate(assertion, _missing("no trial of the probe was recorded"), point=run)
    pooled = condition_metrics(run, probe_of(assertion), "", trials)
    _, what, *statistic = assertion.name.split(".")
    if not statistic:
        share = pooled.passed if what == _PASSED else share_of(trials, Outcome(what))
        return check_estimate(assertion, share, point=run)
    duration = pooled.durations.get(_SHORT.get(what, what))
    if duration is None:
        return check_estimate(assertion, _missing(f"the probe has no {what}"), point=run)
    lost = sum(trial.passed is not None for trial in last_attempts(trials)) - duration.n
    failure = failure_with_lost(
        assertion, duration, statistic[0], lost, f"{counted(lost, 'trial')} without this duration"
    )
    return check_estimate(assertion, duration[statistic[0]], failure=failure, point=run)


def _missing(reason: str) -> Estimate:
    return Estimate(None, 0, 0, reason=reason)


def probe_of(assertion: Assertion) -> str:
    """Return the name of an assertion's probe."""
    return _hyphened(assertion.name.partition(".")[0])


def _hyphened(probe: str) -> str:
    return probe.replace("_", "-")
