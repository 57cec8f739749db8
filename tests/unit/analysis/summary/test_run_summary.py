"""The metrics of a run: every turn is counted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from live_eval.analysis.summary.latencies import LATENCIES
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.recording import RunReader, RunWriter


@pytest.fixture(scope="module")
def summary(run_folder: Path) -> RunSummary:
    with RunReader.open(run_folder) as run:
        return summarise(run)


def first_bytes(*, without: tuple[int, ...] = ()) -> list[float]:
    return [400.0 + 10 * number for number in range(24) if number not in without]


def test_the_turns(summary: RunSummary) -> None:
    assert (summary.total, summary.captured) == (24, 22)
    assert summary.failures == {"no_response": 1, "closed": 1}
    assert summary.retried == {"rate_limited": 1}
    assert summary.warnings == {"unknown_event": 1}
    assert list(summary.first_warnings) == ["unknown_event"]
    assert summary.premature == 1
    assert summary.uncertain == 3
    assert summary.could_not_run == {"ves": "needs the key GEMINI_API_KEY"}


def test_a_caller_sees_every_turn_with_the_scores(run_folder: Path) -> None:
    seen: list[str] = []
    with RunReader.open(run_folder) as run:
        read = summarise(run, seen=lambda turn, table: seen.append(turn.turn_id + table.columns[0].name))
        assert seen == [turn.turn_id + read.table.columns[0].name for turn in run.turns()]
    assert {**read.as_json(cues=False), **read.cues_json()} == read.as_json()


def test_percentiles_are_of_captured_turns_with_a_certain_end_of_speech(summary: RunSummary) -> None:
    first_byte = summary.latencies["first_byte"]
    kept = first_bytes(without=(5, 6, 7, 8, 9))
    assert first_byte.n == len(kept) == 19
    assert first_byte.measured["p50"].value == pytest.approx(np.quantile(kept, 0.5))
    assert (first_byte.measured["p95"].value, first_byte.measured["p95"].reason) == (
        None,
        "fewer than 30 values",
    )
    assert first_byte.uncertain.n == 3
    assert first_byte.uncertain["p50"].value == pytest.approx(480)
    assert first_byte.without_flagged.n == 18
    assert first_byte.without_flagged["p50"].value == pytest.approx(
        np.quantile(first_bytes(without=(5, 6, 7, 8, 9, 10)), 0.5)
    )
    assert first_byte.measured.missing == {"the turn failed": 2}


@pytest.mark.parametrize("name", LATENCIES)
def test_every_latency_accounts_for_all_turns(summary: RunSummary, name: str) -> None:
    latency = summary.latencies[name]
    assert latency.n + latency.uncertain.n + latency.measured.n_missing == summary.total


def test_a_failed_turn_counts_in_the_time_to_connect_if_it_connected(summary: RunSummary) -> None:
    """As in assertions and campaigns: one value under one name."""
    connect = summary.latencies["connect"]
    failed = [turn for turn in summary.turns if not turn.captured]
    assert [turn.milliseconds("connect") is not None for turn in failed] == [True, True]
    assert (connect.n, connect.measured.n_missing) == (summary.total, 0)
    assert [turn.milliseconds("first_byte") for turn in failed] == [None, None]


def test_latencies_that_do_not_begin_with_the_end_of_speech_have_no_uncertain_turns(
    summary: RunSummary,
) -> None:
    assert summary.latencies["lead_silence"].n == 22
    assert summary.latencies["connect"].uncertain.n == 0
    assert summary.latencies["lead_silence"].measured["p50"].value == pytest.approx(80, abs=0.2)
    assert summary.latencies["barge_in_stop"].measured.missing["the user did not speak over the reply"] == 22


def test_a_failed_turn_stays_in_the_denominator_of_every_score(summary: RunSummary) -> None:
    for score in summary.scores.values():
        assert score.n + score.n_unscored + score.n_failed == 24
    bleu = summary.scores["bleu"]
    assert (bleu.n, bleu.n_unscored, bleu.n_failed) == (19, 4, 1)
    assert bleu.reasons["the turn failed"] == 2
    assert bleu.reasons["no reference text"] == 1
    assert bleu.reasons["not judged yet"] == 1
    kept = [10.0 * number for number in range(24) if number not in (1, 2, 4, 5, 6)]
    assert bleu.mean.value == pytest.approx(np.mean(kept))
    assert bleu.mean.interval is not None
    assert bleu.mean.interval.low < np.mean(kept) < bleu.mean.interval.high


def test_scores_are_of_the_version_that_judged_last_in_the_order_asked_for(summary: RunSummary) -> None:
    assert list(summary.scores) == ["bleu", "dnsmos.ovrl", "dnsmos.sig", "ves"]
    assert summary.scores["dnsmos.sig"].mean.value == pytest.approx(4)
    assert summary.scores["dnsmos.sig"].column.version == "1"
    assert summary.scores["dnsmos.ovrl"].column.unit == "MOS"


def test_a_judge_that_could_not_run_has_no_value(summary: RunSummary) -> None:
    ves = summary.scores["ves"]
    assert ves.mean.value is None
    assert (ves.n, ves.n_unscored, ves.n_failed) == (0, 24, 0)
    assert ves.reasons == {"needs the key GEMINI_API_KEY": 22, "the turn failed": 2}


def test_groups_partition_the_turns_on_each_level(summary: RunSummary) -> None:
    for level in ("variant", "coarse", "fine", "attribute", "attribute_variant"):
        groups = [group for group in summary.groups if group.level == level]
        assert sum(group.turns for group in groups) == 24
        assert sum(group.captured for group in groups) == 22
    variants = {group.labels: group for group in summary.groups if group.level == "variant"}
    assert list(variants) == [("target",), ("neutral",)]
    happy = next(g for g in summary.groups if g.labels == ("paralinguistic", "emotion", "happy"))
    assert happy.turns == 3
    assert happy.voice_to_voice.n == 2, "turn 8 is uncertain"
    assert happy.scores["dnsmos.ovrl"].value == pytest.approx(np.mean([3.0, 3.08, 3.16]))
    assert any(g.labels == ("unlabelled", "unlabelled", "a voice nobody named") for g in summary.groups)


def test_the_json_is_stable(summary: RunSummary) -> None:
    told = summary.as_json()
    assert {"total": 24, "captured": 22, "failed": 2}.items() <= told["turns"].items()
    assert set(told["latency_ms"]) == set(LATENCIES)
    for latency in told["latency_ms"].values():
        assert {"n", "p50", "p95"} <= set(latency)
        assert latency["p95"] is None
        assert latency["p95_reason"] == ("fewer than 30 values" if latency["n"] else "no values")
    for score in told["scores"].values():
        assert {"mean", "n", "n_unscored", "n_failed"} <= set(score)
    assert told["failures"] == {"no_response": 1, "closed": 1}
    assert told["latency_ms"]["first_byte"]["p50"] == pytest.approx(540)
    assert told["latency_ms"]["barge_in_stop"]["p50"] is None
    assert told["lag_ms"]["flagged"] == 1


def test_the_facts_of_a_run(summary: RunSummary) -> None:
    facts = summary.facts
    assert (facts.endpoint, facts.model, facts.conditions.turn_mode) == ("reference", "made-up", "server_vad")
    assert (facts.planned, facts.state, facts.name) == (26, "finished", "first")


def test_a_run_without_turns_and_without_a_manifest_has_a_summary(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, {}) as run:
        run.end(finished=True)
    with RunReader.open(tmp_path) as read:
        empty = summarise(read)
    told = empty.as_json()
    assert told["turns"] == {"total": 0, "captured": 0, "failed": 0, "planned": None}
    assert told["latency_ms"]["voice_to_voice"]["p50"] is None
    assert told["scores"] == {}


def test_retiming_gives_the_same_latencies(run_folder: Path, summary: RunSummary) -> None:
    with RunReader.open(run_folder) as run:
        assert summarise(run, retime=True).as_json() == summary.as_json()


def notes_of(folder: Path) -> str:
    with RunReader.open(folder) as run:
        return " ".join(summarise(run).notes)


def test_outages_are_noted(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for seconds in (100.4, 23.2):
            writer.add_outage({"since_wall_ns": 1, "seconds": seconds, "over": True, "reason": "refused"})
    note = "the endpoint was unreachable 2 times, for 124 s in total; the run paused"
    assert note in notes_of(tmp_path / "run")


@pytest.mark.parametrize("outages", ["x", 3, {}, [], [None, "x"]])
def test_invalid_outages_are_ignored(outages: object, tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "run", {"outages": outages}).close()
    assert "was unreachable" not in notes_of(tmp_path / "run")
