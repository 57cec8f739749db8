"""Two conditions of a campaign."""

from __future__ import annotations

import pytest

from live_eval.report.latency.point_view import PointView
from tests.support.campaigns import a_case, point, turns_at
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.latency.conditions import SLOWER, failed, view_of

TIMES = [500.0 + 7 * number for number in range(40)]


EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))


@pytest.fixture(scope="module")
def c1() -> PointView:
    return view_of(point("c1"), [*turns_at(TIMES), failed(50), EARLY])


@pytest.fixture(scope="module")
def c8() -> PointView:
    return view_of(point("c8", concurrency=8), turns_at(SLOWER))
