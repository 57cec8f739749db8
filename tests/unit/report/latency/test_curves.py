"""Curves of latency and their tails."""

from __future__ import annotations

import pytest

from live_eval.report.latency.curves import latency_curves, latency_tails
from live_eval.report.latency.point_view import PointView
from tests.support.campaigns import a_case, point, turns_at
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.latency.conditions import turn_of, view_of

TIMES = [500.0 + 7 * number for number in range(40)]


EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))


HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


def test_a_curve_has_a_dot_for_each_turn_at_its_height(c1: PointView, c8: PointView) -> None:
    found = latency_curves("Voice to voice", "voice_to_voice", [c1])
    assert found is not None
    assert len(found.dots) == 41
    quickest, slowest = found.dots[0], found.dots[-1]
    assert turn_of(quickest.href) == "case-060"
    zero = next(tick.at for tick in found.across_ticks if tick.label == "0")
    assert quickest.across < zero
    assert slowest.up == pytest.approx(100 * 41 / 42)  # the failed turn is not on the curve
    both = latency_curves("Voice to voice", "voice_to_voice", [c1, c8])
    assert both is not None
    assert [name.href for name in both.legend] == ["c1/report.html", "c8/report.html"]


def test_the_slowest_of_many_turns_have_dots() -> None:
    view = view_of(point("c1"), turns_at([300.0 + number for number in range(200)]))
    found = latency_curves("First byte", "first_byte", [view])
    assert found is not None
    assert len(found.dots) <= 60
    assert [turn_of(dot.href) for dot in found.dots[-10:]] == [f"case-{place}" for place in range(190, 200)]
    tail = latency_tails("First byte", "first_byte", [view])
    assert tail is not None
    assert [tick.label for tick in tail.across_ticks] == ["p0", "p50", "p90", "p99"]
