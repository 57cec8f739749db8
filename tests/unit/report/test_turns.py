"""The order of turns."""

from __future__ import annotations

import re
from pathlib import Path

from live_eval.analysis.turn_view import TurnView
from live_eval.recording import RunReader
from live_eval.report.tables import RunView
from live_eval.report.turns import turn_order, turn_row
from tests.unit.report.pages import summary_of


def test_turns_sort_by_script_variant_and_repetition(run_folder: Path) -> None:
    ordered = sorted(summary_of(run_folder).turns, key=turn_order)
    assert [turn.turn_id for turn in ordered[:3]] == ["id_0/target", "id_0/neutral", "id_1/target"]
    assert ordered[-1].turn_id == "id_11/neutral"


def test_a_latency_from_an_uncertain_end_is_in_parentheses_and_sorts_last(run_folder: Path) -> None:
    summary = summary_of(run_folder)
    with RunReader.open(run_folder) as run:
        views = [TurnView(turn, summary.table, run_folder) for turn in run.turns() if turn.captured]
    by_certainty = {view.record.timing.uncertain: view for view in views}
    run_view = RunView(0, "a", summary)
    (text, key), *_ = turn_row(by_certainty[True], run_view, "t0", [], steps=None).values
    assert re.fullmatch(r"\(\d+\)", text)
    assert key is None
    (text, key), *_ = turn_row(by_certainty[False], run_view, "t1", [], steps=None).values
    assert float(text) == round(key or 0)
