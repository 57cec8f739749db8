"""Check assertions on a run, such as ``wer_heard.normalized.mean < 5`` or ``failed < 2%``.

An assertion about a missing value fails. For latencies, see `live_eval.analysis.latency.assertions`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from live_eval.analysis.assertions import (
    PERCENT,
    PLAIN,
    Assertion,
    CheckedAssertion,
    check_estimate,
    check_known,
    check_unit,
    parse_bound,
)
from live_eval.analysis.latency.assertions import check_turns, parse_assertion
from live_eval.analysis.latency.campaign_latencies import METRICS
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.errors import UsageError
from live_eval.recording import TurnRecord
from live_eval.registry import installed_judges

__all__ = ["check_run", "parse_run_assertion"]

_FAILED = "failed"
_FORM = (
    "SCORE.mean < NUMBER, LATENCY.STATISTIC < TIME or failed < SHARE, for example "
    "'wer_heard.normalized.mean < 5', 'voice_to_voice.p95 < 1200ms' or 'failed < 2%'"
)


def parse_run_assertion(text: str, scores: Collection[str]) -> Assertion:
    """Parse an assertion: ``SCORE.mean < NUMBER``, ``LATENCY.STATISTIC < TIME`` or ``failed < SHARE``.

    Args:
        scores: Score names of the run's judges.

    Raises:
        UsageError: The text is not a valid assertion.
    """
    assertion = parse_bound(text, _FORM)
    if assertion.name == _FAILED:
        check_unit(assertion, PERCENT)
    elif "." not in assertion.name:
        raise UsageError(f"assertion {text!r}: expected {_FORM}")
    elif assertion.metric in METRICS:
        return parse_assertion(text)
    else:
        judge = assertion.metric.partition(".")[0]
        named = any(score.partition(".")[0] == judge for score in scores)
        if not named and any(spec.name == judge for spec in installed_judges()):
            raise UsageError(f"assertion {text!r}: the judge {judge} does not score this run; see --judges")
        check_known(text, "score or latency", assertion.metric, [*scores, *METRICS])
        check_known(text, "statistic", assertion.statistic, ["mean"])
        check_unit(assertion, PLAIN)
    return assertion


def check_run(
    assertions: Sequence[Assertion], summary: RunSummary, turns: Sequence[TurnRecord]
) -> list[CheckedAssertion]:
    """Check assertions from `parse_run_assertion` on a run's summary and turns."""
    return [_check(assertion, summary, turns) for assertion in assertions]


def _check(assertion: Assertion, summary: RunSummary, turns: Sequence[TurnRecord]) -> CheckedAssertion:
    if assertion.metric in METRICS:
        return check_turns(assertion, turns)
    if assertion.name == _FAILED:
        share = 100 * (summary.total - summary.captured) / summary.total if summary.total else None
        found = Estimate(share, summary.total, 0, reason="" if summary.total else "no turns")
    else:
        score = summary.scores.get(assertion.metric)
        found = Estimate(None, 0, 0, reason="no turn was judged") if score is None else score.mean
    return check_estimate(assertion, found, digits=6)
