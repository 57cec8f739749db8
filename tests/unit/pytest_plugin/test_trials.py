"""The test API for trials of a probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.trial import TrialResult
from live_eval.analysis.turn_taking.trial_metrics import condition_metrics
from live_eval.errors import UsageError
from live_eval.pytest_plugin import ms
from live_eval.pytest_plugin.trials import ProbeTrial, ProbeTrials
from tests.unit.campaigns.duplex.test_summary import interrupted, void


def trials(*results: TrialResult, impaired: tuple[TrialResult, ...] = ()) -> ProbeTrials:
    runs = {"clean": results, **({"impaired": impaired} if impaired else {})}
    conditions = [condition_metrics(run, "barge-in", "900 ms", each) for run, each in runs.items()]
    every = tuple(ProbeTrial(result, Path("c")) for result in (*results, *impaired))
    return ProbeTrials(every, conditions, "barge-in", Path("c"))


def test_the_durations_of_a_trial_are_compared() -> None:
    trial = trials(interrupted(1, 350))[0]
    assert (trial.passed, trial.outcome, trial.condition) == (True, Outcome.YIELDED, "900 ms")
    assert ms(349) < trial.barge_in_stop < ms(351)
    assert trial.provider_stop.ms == 350
    assert repr(trial.barge_in_stop) == "350.0 ms (error bar 0.0 ms)"
    assert repr(trial) == "<trial 'barge-in-900 ms-1', yielded, recorded in c>"


def test_a_trial_without_a_stop_has_a_reason() -> None:
    talking = trials(interrupted(1, 2500))[0]
    assert talking.passed is False
    assert talking.barge_in_stop.ms == 2500
    inconclusive = trials(void(1))[0]
    assert inconclusive.passed is None
    assert not inconclusive.barge_in_stop < ms(10_000)
    assert repr(inconclusive.barge_in_stop) == (
        "missing (natural_end: the reply ended naturally while the user spoke)"
    )


def test_trials_meet_an_assertion_or_show_the_outcomes() -> None:
    played = trials(*(interrupted(number, 300) for number in range(9)), interrupted(9, 2500))
    assert played.meet("barge_in.passed >= 90%")
    failed = played.meet("barge_in.passed >= 95%")
    assert (bool(failed), failed.value, failed.n) == (False, 90, 10)
    assert not played.meet("barge_in.stop.p95 < 400ms")
    assert repr(played) == "<10 trials of barge-in: 900 ms yielded 9, 900 ms kept_talking 1, recorded in c>"


def test_an_assertion_holds_only_if_it_holds_with_the_impairment_too() -> None:
    played = trials(interrupted(1, 300), impaired=(interrupted(1, 2500),))
    assert played.meet("barge_in.passed >= 90%").point == "impaired"
    assert not played.meet("barge_in.passed >= 90%")


def test_an_assertion_on_another_probe_is_refused() -> None:
    with pytest.raises(UsageError, match="the campaign does not run the probe pause"):
        trials(interrupted(1, 300)).meet("pause.passed >= 90%")
