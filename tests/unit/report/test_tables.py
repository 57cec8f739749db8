"""Tables of cues."""

from __future__ import annotations

from pathlib import Path

from live_eval.report import open_runs
from live_eval.report.tables import cue_tables


def test_the_cue_table_is_an_outline_without_repetition(run_folder: Path) -> None:
    with open_runs([run_folder]) as opened:
        [table] = cue_tables([opened[0].view])
    assert [(row[0].text, row[0].indent) for row in table.rows] == [
        ("all target", 0),
        ("all neutral", 0),
        ("environment", 0),
        ("weather: wind", 1),
        ("paralinguistic", 0),
        ("emotion: happy", 1),
        ("speaker", 0),
        ("age: elderly", 1),
        ("neutral", 0),
        ("unlabelled", 0),
        ("a voice nobody named", 2),
    ]
    assert [int(row[1].text) for row in table.rows][:3] == [12, 12, 3]
