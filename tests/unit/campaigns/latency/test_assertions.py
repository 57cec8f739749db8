"""Assertions at each condition of a latency campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from live_eval.analysis.latency.assertions import parse_assertion
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.latencies import Lag
from live_eval.campaigns.latency.assertions import check_campaign
from live_eval.campaigns.latency.campaign_file import PointRecord, StoredPoint
from live_eval.campaigns.latency.point_metrics import PointMetrics, point_metrics
from tests.support.campaigns import point
from tests.unit.analysis.latency.test_assertions import latency


def condition(name: str, role: str = "sweep", *, lag_ms: float = 0.9, **changes: Any) -> PointMetrics:
    stored = StoredPoint.model_validate(point(name, role))
    found = point_metrics(PointRecord(stored=stored, path=Path(name), turns=()))
    return replace(
        found,
        lag=Lag(0.1, lag_ms, 0),
        latencies={**found.latencies, "first_byte": latency(**changes)},
    )


def test_an_assertion_is_checked_in_every_condition_of_the_sweep() -> None:
    points = [
        condition("c1"),
        condition("start", "sentinel", p95=Estimate(9000.0, 40, 40)),
        condition("c2", p95=Estimate(1300.0, 40, 40)),
        condition("c4", unanswered=5, lag_ms=2.5),
    ]
    results = check_campaign([parse_assertion("first_byte.p95 < 1200ms")], points)
    assert [(each.point, each.holds) for each in results] == [("c1", True), ("c2", False), ("c4", False)]
    assert [each.error_bar_ms for each in results] == [0.9, 0.9, 2.5]  # each point's own
    assert results[2].reason == "5 turns failed or had no answer, which counts as beyond the bound"
    assert results[1].as_json() == {
        "expression": "first_byte.p95 < 1200ms",
        "holds": False,
        "value_ms": 1300.0,
        "interval_ms": None,
        "error_bar_ms": 0.9,
        "n": 40,
        "point": "c2",
        "reason": "",
    }


def test_assertions_fail_for_a_campaign_without_conditions() -> None:
    (result,) = check_campaign([parse_assertion("first_byte.p95 < 1200ms")], [])
    assert not result
    assert result.reason == "cannot be checked: no condition of the campaign was measured"
