"""Latencies of sighs and other sounds of the speaker, from the last word and from the last sound."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.turn_view import TurnView
from live_eval.data import cue_of
from live_eval.export.table import ExportTable
from live_eval.recording import RunReader, RunWriter
from live_eval.report.tables import RunView, latency_table
from live_eval.types import Case, SpeechBoundaries, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import page_of, summary_of

MS = 1_000_000


def a_run(path: Path, cues: dict[str, int | None]) -> RunSummary:
    """A run of uncertain turns by cue, each with the time of its last word before its last sound, in ms."""
    with RunWriter.create(path, {}) as run:
        for number, (cue, after_word_ms) in enumerate(cues.items()):
            case = Case(
                case_id=cue,
                script_id=cue,
                variant=Variant.TARGET,
                audio_path=Path("x.wav"),
                cue=cue_of(cue),
            )
            record = spoken_turn(case, TurnPlan(first_byte_ms=400.0 + 100 * number, uncertain=True))
            assert record.trace.voice_end_ns is not None
            assert record.trace.t0_ns is not None
            end_ns = record.trace.voice_end_ns - record.trace.t0_ns
            words_end_ns = None if after_word_ms is None else end_ns - after_word_ms * MS
            boundaries = SpeechBoundaries(
                onset_ns=0, voice_end_ns=end_ns, words_end_ns=words_end_ns, uncertain=True
            )
            run.commit(replace(record, trace=replace(record.trace, boundaries=boundaries)))
        run.end(finished=True)
    return summary_of(path)


def test_a_sigh_has_both_latencies_although_its_end_is_uncertain(tmp_path: Path) -> None:
    summary = a_run(tmp_path / "run", {"sigh": 600, "breath": 200, "sob": None, "whisper": 300})
    assert summary.latencies["voice_to_voice"].n == 0
    ends = {name: each.measured for name, each in summary.vocal_sounds.items()}
    word, sound = ends["voice_to_voice_from_last_word"], ends["voice_to_voice_from_last_sound"]
    by_turn = [turn.milliseconds("voice_to_voice") for turn in summary.turns]
    assert sound.values == tuple(by_turn[:3]), "a whisper is no sound without words"
    assert word.values == pytest.approx([(by_turn[0] or 0) + 600, (by_turn[1] or 0) + 200])
    assert word.missing == {"the end of the last word is unknown": 1}


def test_both_have_their_names_in_the_tables_and_no_dash_by_cue(tmp_path: Path) -> None:
    summary = a_run(tmp_path / "run", {"sigh": 600})
    table = latency_table([RunView(0, "run", summary)])
    medians = {row[0].text: row[1].text for row in table.rows}
    assert medians["voice to voice from last word"] == "1080"
    assert medians["voice to voice from last sound"] == "480"
    (cue_map,) = summary.cue_maps
    _, group = cue_map.rows[0]
    assert group.voice_to_voice.value == pytest.approx(480, abs=0.1)
    assert group.from_last_sound
    assert any("(sigh)" in note for note in summary.notes)
    text = " ".join(page_of(tmp_path / "run").text.split())
    assert "voice to voice from last word, p50 ? 1080 ms" in text
    assert "480 from the last sound" in text


def test_a_turn_and_its_export_have_both_under_their_names(tmp_path: Path) -> None:
    a_run(tmp_path / "run", {"sigh": 600, "sob": None, "whisper": 300})
    with RunReader.open(tmp_path / "run") as run:
        exported = ExportTable(run)
        rows = list(exported.rows())
        sigh, _, whisper = (TurnView(turn, exported.scores, run.path) for turn in run.turns())
    word, sound = "voice_to_voice_from_last_word", "voice_to_voice_from_last_sound"
    assert [row["latency_ms"][word] for row in rows] == [pytest.approx(1080, abs=0.1), None, None]
    assert [row["latency_ms"][sound] for row in rows] == pytest.approx([480, 580, None], abs=0.1)
    assert rows[1]["latency_reason"][word] == "the end of the last word is unknown"
    assert rows[2]["latency_reason"][sound] == "the cue is no sound of the speaker"
    assert list(sigh.shown_latencies)[-2:] == [word, sound]
    assert word not in whisper.shown_latencies


def test_other_cues_have_none(tmp_path: Path) -> None:
    assert a_run(tmp_path / "run", {"whisper": 300}).vocal_sounds == {}
