"""Rows of the turn list, stored by column."""

from typing import Any

import pytest

from live_eval.studio.turn_rows import TurnRows


def row(turn_id: str, ms: float | None, score: float | None) -> dict[str, Any]:
    """A row as the studio serves it, with fewer names."""
    return {
        "turn_id": turn_id,
        "cue": "sigh" if ms is None else None,
        "warnings": ["clock_step"],
        "latency_ms": {"voice_to_voice": ms},
        "scores": {"bleu": score, "wer.raw": 0.0},
    }


def test_rows_are_returned_as_added() -> None:
    rows, added = TurnRows(), [row("a", None, 1.5), row("b", -20.25, None)]
    for each in added:
        rows.append(each)
    assert [dict(each) for each in rows] == added
    assert [list(each) for each in rows] == [list(each) for each in added], "in the same order"
    assert (len(rows), len(rows[0])) == (2, 5)
    assert dict(rows[-1]) == added[1]
    assert [each["turn_id"] for each in rows[::-1]] == ["b", "a"]
    assert [each.number("scores", "bleu") for each in rows] == [1.5, None]


def test_a_place_after_the_last_row_does_not_exist() -> None:
    with pytest.raises(IndexError):
        TurnRows()[0]
