"""Check assertions about latencies, such as ``voice_to_voice.p95 < 1200ms``.

An assertion about a missing value (such as the 95th percentile of fewer than 30 turns) fails. For an upper
bound, failed and unanswered turns rank after all others. Turns that failed because a live-eval process died
are excluded, because the endpoint did not cause the failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from live_eval.analysis.assertions import (
    MS,
    Assertion,
    CheckedAssertion,
    check_estimate,
    check_known,
    check_unit,
    failure_with_lost,
    parse_bound,
)
from live_eval.analysis.latency.campaign_latencies import METRICS, CampaignLatency, campaign_latency
from live_eval.analysis.summary.latencies import lag_of
from live_eval.errors import UsageError
from live_eval.recording import TurnRecord
from live_eval.text.wording import counted

__all__ = ["check_assertion", "check_turns", "parse_assertion"]

_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
"""The statistics that assertions can refer to."""

_FORM = "METRIC.STATISTIC < TIME, for example 'voice_to_voice.p95 < 1200ms'"


def parse_assertion(text: str) -> Assertion:
    """Parse an assertion: ``METRIC.STATISTIC < TIME``, also with ``<=``, ``>`` or ``>=``.

    The time is in ``ms`` or ``s``.

    Raises:
        UsageError: The text is not a valid assertion.

    >>> parse_assertion("voice_to_voice.p95 < 1.2s").bound
    1200.0
    """
    assertion = parse_bound(text, _FORM)
    if not assertion.metric:
        raise UsageError(f"assertion {text!r}: expected {_FORM}")
    check_known(text, "metric", assertion.metric, METRICS)
    check_known(text, "statistic", assertion.statistic, _STATISTICS)
    check_unit(assertion, MS)
    return assertion


def check_assertion(
    assertion: Assertion, latency: CampaignLatency, *, error_bar_ms: float | None, point: str = ""
) -> CheckedAssertion:
    """Check an assertion on a latency of a campaign.

    Args:
        latency: Metrics of the latency.
        error_bar_ms: Maximum error of the value due to live-eval's own lateness, or None.
        point: Condition of the campaign; empty outside a campaign.
    """
    found = latency.measured[assertion.statistic]
    if found.value is None:
        found = replace(found, reason=_why_no_value(latency, found.reason))
    lost = f"{counted(latency.unanswered, 'turn')} failed or had no answer"
    return check_estimate(
        assertion,
        found,
        failure=failure_with_lost(assertion, latency.measured, assertion.statistic, latency.unanswered, lost),
        error_bar_ms=error_bar_ms,
        point=point,
    )


def check_turns(assertion: Assertion, turns: Sequence[TurnRecord]) -> CheckedAssertion:
    """Check an assertion on turns that do not belong to a campaign."""
    lag = lag_of(turn.timing for turn in turns if turn.captured)
    return check_assertion(assertion, campaign_latency(assertion.metric, turns), error_bar_ms=lag.p99)


def _why_no_value(latency: CampaignLatency, why: str) -> str:
    reasons = [why or "no values"]
    reasons += [f"{reason} ({counted(count, 'turn')})" for reason, count in latency.measured.missing.items()]
    if latency.uncertain:
        uncertain = counted(latency.uncertain, "turn")
        reasons.append(f"the end of the user's speech is uncertain in {uncertain}")
    return ", ".join(reasons)
