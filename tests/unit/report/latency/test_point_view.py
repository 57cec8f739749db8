"""Conditions of a campaign."""

from __future__ import annotations

import pytest

from live_eval.campaigns.latency.campaign_file import StoredPoint
from live_eval.report.latency.charts import sweep
from live_eval.report.latency.point_view import PointView, load_in_words
from tests.support.campaigns import a_case, point
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.latency.conditions import turn_of

TIMES = [500.0 + 7 * number for number in range(40)]


EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))


HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


def test_a_percentile_links_to_the_turn_at_its_rank(c8: PointView) -> None:
    chart = sweep([c8], "voice_to_voice")
    assert chart is not None
    (row,) = chart.rows
    marks = {mark.kind: mark for mark in row.marks}
    median = marks["p50"]
    assert turn_of(median.href) == "case-019"
    voice_ns = next(turn.timing.voice_to_voice.ns for turn in c8.record.turns if turn.turn_id == "case-019")
    assert voice_ns is not None
    assert float(median.title.split()[1]) == pytest.approx(voice_ns / 1e6, abs=5)
    assert turn_of(marks["p95"].href) == "case-037"
    assert "p99" not in marks  # 40 turns have no value
    assert [bar.kind for bar in row.bars] == ["range", "interval"]


def test_the_load_of_a_condition_in_words() -> None:
    facts = StoredPoint.model_validate(
        point("c4", concurrency=4, arrivals="poisson:2", input_s=2.5, turn_detection={"ms": 200})
    )
    assert load_in_words(facts) == "4 concurrent sessions, poisson:2, 2.5 s of speech, ms=200"
    facts = StoredPoint.model_validate(point("c1", turn_mode="manual", sessions="warm"))
    assert load_in_words(facts) == "1 concurrent session, manual turns, warm sessions"
