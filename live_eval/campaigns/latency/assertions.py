"""Check assertions about latencies in each condition of a campaign."""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.analysis.assertions import Assertion, CheckedAssertion, check_estimate
from live_eval.analysis.latency.assertions import check_assertion
from live_eval.analysis.statistics.intervals import Estimate, rounded
from live_eval.campaigns.latency.point_metrics import PointMetrics
from live_eval.campaigns.latency.points import PointRole

__all__ = ["check_campaign"]

_NOTHING_MEASURED = Estimate(None, 0, 0, reason="no condition of the campaign was measured")


def check_campaign(assertions: Sequence[Assertion], points: Sequence[PointMetrics]) -> list[CheckedAssertion]:
    """Check assertions for every condition of a campaign's sweep, excluding drift checks and endpointing.

    Returns:
        For each assertion, in order, one result per condition; a single failure if there are no conditions.
    """
    swept = [point for point in points if point.stored.role == PointRole.SWEEP]
    if not swept:
        return [check_estimate(assertion, _NOTHING_MEASURED) for assertion in assertions]
    return [
        check_assertion(
            assertion,
            point.latencies[assertion.metric],
            error_bar_ms=rounded(point.lag.p99, 3),
            point=point.name,
        )
        for assertion in assertions
        for point in swept
    ]
