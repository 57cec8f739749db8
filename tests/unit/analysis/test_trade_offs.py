"""Scores against latency: the Pareto front, and comparable runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.analysis.comparison.series import ComparedRun, compared_run
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.analysis.trade_offs import pareto_front, trade_offs
from live_eval.recording import RunReader

Points = list[tuple[float, float]]
COARSE = st.integers(0, 6).map(float)


def read(path: Path, name: str) -> tuple[ComparedRun, RunSummary]:
    with RunReader.open(path) as run:
        summary = summarise(run)
        return compared_run(run, name, summary.turns, summary.table), summary


@pytest.fixture(scope="module")
def runs(run_folder: Path, slower_run_folder: Path) -> list[tuple[ComparedRun, RunSummary]]:
    return [read(run_folder, "first"), read(slower_run_folder, "second")]


@given(st.lists(st.tuples(COARSE, COARSE), max_size=12), st.booleans())
def test_the_front_contains_every_point_that_no_other_beats(points: Points, higher: bool) -> None:
    sign = 1 if higher else -1

    def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return one != other and one[0] <= other[0] and sign * one[1] >= sign * other[1]

    beaten = {place for (place, one), other in product(enumerate(points), points) if beats(other, one)}
    assert pareto_front(points, higher_is_better=higher) == set(range(len(points))) - beaten


def test_each_score_with_a_direction_is_compared_with_latency(
    runs: list[tuple[ComparedRun, RunSummary]],
) -> None:
    found = {each.name: each for each in trade_offs(runs)}
    assert list(found) == ["bleu", "dnsmos.ovrl", "dnsmos.sig"]  # no turn was scored by ves
    sig = found["dnsmos.sig"]
    assert sig.notes == ()
    first, second = sig.runs
    assert (first.run, second.run) == (0, 1)
    assert first.latency == runs[0][1].latencies["voice_to_voice"].measured["p50"]
    assert first.score == runs[0][1].scores["dnsmos.sig"].mean
    # The second is slower and rated worse.
    assert (first.on_front, second.on_front) == (True, False)


def test_turns_count_if_they_have_both_values(runs: list[tuple[ComparedRun, RunSummary]]) -> None:
    ovrl = next(each for each in trade_offs(runs) if each.name == "dnsmos.ovrl")
    # Of 24 turns, 2 failed and the end of speech of 3 is uncertain.
    assert len(ovrl.turns) == 2 * 19
    best = [turn for turn in ovrl.turns if turn.on_front]
    assert best[0].turn_id == "id_0/target"
    assert best[-1].turn_id == "id_11/neutral"
    assert all(turn.run == 0 for turn in best)


def test_an_incomparable_run_is_excluded(
    runs: list[tuple[ComparedRun, RunSummary]],
) -> None:
    (first, summary), (second, of_second) = runs
    endpoint = {**first.manifest["endpoint"], "turn_mode": "manual"}
    manual = replace(second, manifest={**second.manifest, "endpoint": endpoint})
    for found in trade_offs([(first, summary), (manual, of_second)]):
        assert [each.run for each in found.runs] == [0]
        assert {turn.run for turn in found.turns} == {0}
        assert found.notes == (
            "second is excluded: the user's turns were ended by server_vad in first and by manual in second",
        )


def test_trade_offs_are_printed_by_run(runs: list[tuple[ComparedRun, RunSummary]]) -> None:
    shown = trade_offs(runs)[-1].as_json(["first", "second"])
    assert shown["score"] == "dnsmos.sig"
    assert [(each["label"], each["on_front"]) for each in shown["runs"]] == [
        ("first", True),
        ("second", False),
    ]
    assert shown["runs"][0]["score"]["value"] == 4
