"""Summaries of media tracks, and of endpoints that are not realtime."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.analysis.comparison.series import read_runs
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.audio.rtp import MediaStats
from live_eval.recording import RunReader, RunWriter
from live_eval.report.compare import compare
from live_eval.report.tables import RunView
from live_eval.report.text_formats import as_markdown
from live_eval.types import Case, Variant
from tests.support.records import spoken_turn

MS = 1_000_000


def case(name: str) -> Case:
    return Case(case_id=name, script_id=name, variant=Variant.NEUTRAL, audio_path=Path("a.wav"))


def run(folder: Path, media: list[MediaStats | None], *, comparable: bool = True) -> RunSummary:
    manifest = {"endpoint": {"name": "e", "turn_mode": "manual", "comparable": comparable}}
    with RunWriter.create(folder, manifest) as writer:
        for number, stats in enumerate(media):
            record = spoken_turn(case(f"c{number}"))
            setup = {} if stats is None else {"offer": (10 + number) * MS, "ice": 40 * MS}
            trace = replace(record.trace, setup_ns=setup)
            writer.commit(replace(record, media=stats, trace=trace))
    with RunReader.open(folder) as reader:
        return summarise(reader)


def test_packets_are_summed_and_turns_with_losses_counted(tmp_path: Path) -> None:
    stats = [
        MediaStats(packets=90, lost=10, concealed_ns=200 * MS, jitter_ns=2 * MS, round_trip_ns=8 * MS),
        MediaStats(packets=100, jitter_ns=1 * MS, sent_packets=50, sent_lost=3, round_trip_ns=4 * MS),
        MediaStats(packets=100, jitter_ns=3 * MS, sent_packets=50, sent_lost=0),
    ]
    summary = run(tmp_path / "run", [*stats])
    assert summary.as_json()["media"] == {
        "turns": 3,
        "packets": 290,
        "lost": 10,
        "turns_with_loss": 1,
        "concealed_ms": 200,
        "jitter_ms": 2,
        "sent_lost": 3,
        "round_trip_ms": 6,
        "setup_ms": {"offer": 11, "ice": 40},
    }
    (note,) = summary.notes
    assert note == (
        "media: 290 packets, 3.3 % lost; in 1 of 3 turns (200 ms of silence); "
        "the endpoint reports 3 of the user's packets as lost; jitter p50 2.0 ms; setup p50 in ms: "
        "offer 11, ice 40"
    )
    assert "290 packets" in as_markdown([RunView(0, "run", summary)])


def test_a_run_without_media_tracks_has_no_media_summary(tmp_path: Path) -> None:
    summary = run(tmp_path / "run", [None])
    assert summary.as_json()["media"] is None
    assert summary.notes == ()


@pytest.mark.parametrize("comparable", [True, False])
def test_an_endpoint_that_is_not_realtime_is_noted_and_not_compared(tmp_path: Path, comparable: bool) -> None:
    realtime = run(tmp_path / "one", [None, None])
    other = run(tmp_path / "two", [None, None], comparable=comparable)
    assert other.as_json()["run"]["comparable"] is comparable
    assert any("not comparable" in note for note in other.notes) is not comparable
    one, two = read_runs([tmp_path / "one", tmp_path / "two"])
    comparison = compare((one, two), (realtime, other))
    assert bool(comparison.latencies) is comparable
    assert any("only one of the endpoints is realtime" in note for note in comparison.notes) is not comparable
