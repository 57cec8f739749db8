"""Waterfalls of a turn and of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.recording import RunWriter
from live_eval.report.bars import waterfall
from live_eval.types import Case, Cue, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import summary_of


def test_the_stages_of_a_waterfall_add_up(run_folder: Path) -> None:
    summary = summary_of(run_folder)
    keys = {turn.turn_id: turn.turn_id for turn in summary.turns}
    chart = waterfall(summary, keys)
    assert chart is not None
    assert chart.axis.startswith("Turns from the fastest")
    totals = [float(row.cells[0].text) for row in chart.rows]
    assert (len(totals), totals) == (19, sorted(totals))
    last = chart.rows[-1].bars[-1]
    scale = totals[-1] / (last.left + last.width - chart.zero)
    for row, total in zip(chart.rows, totals, strict=True):
        assert [each.kind for each in row.bars] == ["s-endpointing", "s-response", "s-silence"]
        assert sum(each.width for each in row.bars) * scale == pytest.approx(total, abs=1)


def run_of(path: Path, plans: dict[str, TurnPlan]) -> RunSummary:
    with RunWriter.create(path, {}) as run:
        for name, plan in plans.items():
            case = Case(
                case_id=name,
                script_id=name,
                variant=Variant.TARGET,
                audio_path=Path("a.wav"),
                cue=Cue("x"),
            )
            run.commit(spoken_turn(case, plan))
    return summary_of(path)


def test_a_waterfall_with_disordered_marks_and_early_replies(tmp_path: Path) -> None:
    summary = run_of(
        tmp_path / "run",
        {
            "late": TurnPlan(endpointing_ms=900, first_byte_ms=300),
            "none": TurnPlan(endpointing_ms=None, first_byte_ms=400),
            "early": TurnPlan(endpointing_ms=None, first_byte_ms=-300, lead_silence_ms=0),
        },
    )
    chart = waterfall(summary, {name: name for name in ("late", "none", "early")})
    assert chart is not None
    rows = {row.label.text: row for row in chart.rows}
    assert [each.kind for each in rows["early"].bars] == ["s-early"]
    assert [each.kind for each in rows["none"].bars] == ["s-response", "s-silence"]
    assert [each.kind for each in rows["late"].bars] == ["s-response", "s-silence"]
    assert rows["early"].bars[0].left < chart.zero
    assert all(
        each.left >= 0 and each.left + each.width <= 100.001 for row in chart.rows for each in row.bars
    )


def test_many_turns_are_drawn_evenly_by_rank(tmp_path: Path) -> None:
    plans = {f"c{n}": TurnPlan(first_byte_ms=300 + n, reply_ms=60) for n in range(50)}
    summary = run_of(tmp_path / "run", plans)
    chart = waterfall(summary, {name: name for name in plans})
    assert chart is not None
    assert len(chart.rows) == 36
    assert chart.axis.startswith("36 of 50 turns")
    assert [row.label.href for row in (chart.rows[0], chart.rows[-1])] == ["#c0", "#c49"]
