"""Assertions on a run: its scores, its latencies and its failed turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.summary.assertions import check_run, parse_run_assertion
from live_eval.analysis.summary.run_summary import summarise
from live_eval.errors import UsageError
from live_eval.recording import RunReader

SCORES = ("rubric.c1", "bleu", "ves")


def check(expression: str, folder: Path) -> CheckedAssertion:
    with RunReader.open(folder) as run:
        assertion = parse_run_assertion(expression, SCORES)
        [checked] = check_run([assertion], summarise(run), list(run.turns()))
    return checked


def test_scores_latencies_and_failures_are_checked(run_folder: Path) -> None:
    with RunReader.open(run_folder) as run:
        summary = summarise(run)
    name, score = next((name, each) for name, each in summary.scores.items() if each.mean.value is not None)
    assertion = parse_run_assertion(f"{name}.mean >= {score.mean.value:.3f}", [name])
    [checked] = check_run([assertion], summary, [])
    assert checked.value == pytest.approx(score.mean.value)
    assert (checked.n, checked.interval) == (score.mean.n, score.mean.interval)
    lost = 100 * (summary.total - summary.captured) / summary.total
    assert check(f"failed <= {lost:.1f}%", run_folder).value == pytest.approx(lost, abs=1e-5)
    assert not check("failed < 0%", run_folder)
    median = check("first_byte.p50 > 0ms", run_folder)
    assert median.value is not None
    assert median.error_bar_ms is not None


def test_an_assertion_on_a_judge_without_scores_fails(run_folder: Path) -> None:
    checked = check("ves.mean > 0", run_folder)
    assert not checked
    assert checked.reason.startswith("cannot be checked: ")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("wer_heard < 5", "assertion 'wer_heard < 5': expected SCORE.mean < NUMBER"),
        ("nisqa.mos.mean > 1", "the judge nisqa does not score this run; see --judges"),
        ("blue.mean > 1", r"unknown score or latency 'blue' \(did you mean bleu\?\)"),
        ("bleu.p50 > 1", "unknown statistic 'p50'"),
        ("bleu.mean > 1ms", "expected a number without a unit, got '1ms'"),
        ("failed < 3", "expected a share in %, got '3'"),
        ("voice_to_voice.p95 < 3", "expected a time in ms or s, got '3'"),
    ],
)
def test_a_mistake_is_named(expression: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_run_assertion(expression, SCORES)
