"""Score tables of large runs."""

from __future__ import annotations

from live_eval.analysis.summary.score_table import JudgedTurns
from live_eval.recording import ScoreRow, ScoreStatus


def a_row(judge: str, turn_id: str, **values: float) -> ScoreRow:
    status: ScoreStatus = "scored" if values else "failed"
    detail = {"reason": "It is “kind”."}
    return ScoreRow(
        judge=judge, version="1", turn_id=turn_id, status=status, values=values, reason="", detail=detail
    )


def test_packed_judgements_are_those_that_were_added() -> None:
    rows = [
        a_row("taste", "id_1", kind=2.5),
        a_row("tone", "id_1", warm=0.1, loud=-3.0),
        a_row("taste", "id_2"),
    ]
    turns = JudgedTurns()
    for row in rows:
        turns.add(row)
    assert {turn_id: dict(judged) for turn_id, judged in turns.items()} == {
        "id_1": {"taste": rows[0], "tone": rows[1]},
        "id_2": {"taste": rows[2]},
    }
    turns.add(again := a_row("taste", "id_1", kind=4.0))
    assert turns["id_1"] == {"taste": again, "tone": rows[1]}
    assert len(turns) == 2
    assert "id_3" not in turns
