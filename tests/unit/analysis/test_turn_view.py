"""A stored turn and its scores, as read by pages and exports."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.analysis.summary.score_table import read_scores
from live_eval.analysis.turn_view import TurnView
from live_eval.errors import FailureKind
from live_eval.judging import Scored, Unscored
from live_eval.recording import RunReader, RunWriter, ScoreReader, ScoreStore
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn


def a_case(name: str) -> Case:
    return Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path("/data/audio/a.wav"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two turns, one of which failed, with scores of several outputs and versions."""
    failure = Failure(FailureKind.NO_RESPONSE, "no response came")
    with RunWriter.create(tmp_path / "run", {}) as writer:
        record = spoken_turn(a_case("a"), TurnPlan(first_byte_ms=900), attempt=2)
        writer.commit(replace(record, late_speech_frames=3))
        writer.commit(spoken_turn(a_case("b"), TurnPlan(first_byte_ms=None, failure=failure)))
        writer.end()
    with ScoreStore.open(tmp_path / "run") as scores:
        scores.put("taste", "1", "a", Scored({"old": 1.0}, {}))
        scores.put("taste", "2", "b", Scored({"sour": 2.0, "sweet": 3.0}, {"reason": "It is sour."}))
        scores.put("taste", "2", "a", Scored({"sweet": 4.0, "": 5.0}, {}))
        scores.put("smell", "1", "b", Unscored("no nose"))
    return tmp_path / "run"


def test_the_scores_of_one_turn_have_the_columns_of_the_run(folder: Path) -> None:
    with ScoreReader.open(folder) as scores:
        whole, one = read_scores(scores), read_scores(scores, turn_ids=["a"])
    assert one.columns == whole.columns
    assert len({column.name for column in one.columns}) == 4
    assert one.rows == {"a": whole.rows["a"]}


def test_a_view_has_latencies_scores_marks_and_notes(folder: Path) -> None:
    with RunReader.open(folder) as run, ScoreReader.open(folder) as scores:
        table = read_scores(scores)
        captured, failed = (TurnView(turn, table, folder) for turn in run.turns())
    assert (captured.status, failed.status) == ("captured", "failed")
    assert captured.counted_ms["first_byte"] == 900
    connect_ms = captured.counted_ms["connect"]
    assert {name: ms for name, ms in failed.counted_ms.items() if ms is not None} == {"connect": connect_ms}
    assert failed.latencies["first_byte"].reason == "no response"
    assert captured.scores["taste.sweet"].value == 4
    assert captured.scores["taste.sour"].reason == "the judge returned no sour"
    assert {cell.value for cell in failed.scores.values()} == {None}  # although its judge scored it
    assert failed.scores["taste.sour"].reason == "the turn failed"
    assert failed.scores["smell"].reason == "no nose"
    assert [row["reason"] for row in failed.judgements] == ["no nose"]
    assert [mark.kind for mark in captured.marks][:3] == ["end", "endpointing", "byte"]
    notes = captured.notes
    assert (notes["attempt"], notes["frames late"], notes["recording"]) == ("2", "3", "audio/a.wav")
    assert notes["both sides"].startswith("audio/")


def test_the_last_mark_of_a_failed_turn_is_its_failure(folder: Path) -> None:
    with RunReader.open(folder) as run, ScoreReader.open(folder) as scores:
        table, (_, failed) = read_scores(scores), run.turns()
    assert failed.trace.t0_ns is not None
    assert failed.failure is not None
    late = replace(failed.failure, at_ns=failed.trace.t0_ns + 30_000_000_000)
    mark = TurnView(replace(failed, failure=late), table, folder).marks[-1]
    assert (mark.kind, mark.title, mark.at_s) == ("failed", "no response", 30)


def test_only_the_audio_of_the_turn_is_looked_up(folder: Path) -> None:
    with RunReader.open(folder) as run:
        turn, other = run.turns()
        assert run.lost_audio_of(turn) == ""
        assert turn.both_file is not None
        turn.both_file.unlink()
        assert run.lost_audio_of(turn) == f"audio/{turn.both_file.name} is missing"
        assert run.lost_audio() == {"a": run.lost_audio_of(turn)}
        assert run.lost_audio_of(other) == ""
