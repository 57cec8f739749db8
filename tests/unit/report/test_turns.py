"""The order of turns."""

from __future__ import annotations

from pathlib import Path

from live_eval.report.turns import turn_order
from tests.unit.report.pages import summary_of


def test_turns_sort_by_script_variant_and_repetition(run_folder: Path) -> None:
    ordered = sorted(summary_of(run_folder).turns, key=turn_order)
    assert [turn.turn_id for turn in ordered[:3]] == ["id_0/target", "id_0/neutral", "id_1/target"]
    assert ordered[-1].turn_id == "id_11/neutral"
