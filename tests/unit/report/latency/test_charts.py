"""Waterfalls as bars."""

from __future__ import annotations

import pytest

from live_eval.report.latency.charts import mean_waterfall, turn_waterfall
from live_eval.report.latency.point_view import PointView
from tests.support.campaigns import a_case
from tests.support.records import TurnPlan, spoken_turn

TIMES = [500.0 + 7 * number for number in range(40)]


EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))


HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


def test_the_bars_of_a_waterfall_add_up_to_its_total(c1: PointView, c8: PointView) -> None:
    for chart in (mean_waterfall([c8]), turn_waterfall(c8)):
        assert chart is not None
        end = float(chart.ticks[-1].label)
        for row in chart.rows:
            width_ms = sum(bar.width for bar in row.bars) * end / 100
            assert width_ms == pytest.approx(float(row.cells[-1].text), abs=0.6)
            assert row.bars[0].left == 0
    turns = turn_waterfall(c1)
    assert turns is not None
    early = turns.rows[0]
    assert early.label.text == "case-060"
    assert "s-early" in [bar.kind for bar in early.bars]
