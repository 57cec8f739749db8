"""Tests of paired differences against independent references, and their false positives by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from live_eval.analysis.statistics.intervals import MIN_CLUSTERS
from live_eval.analysis.statistics.paired import (
    EXACT_SCRIPTS,
    cluster_means,
    holm,
    sign_flip,
    standard_deviation,
    standardised_mean,
)


@pytest.mark.parametrize("scripts", [8, 11, 13])
def test_all_signs_are_those_of_scipy(scripts: int) -> None:
    differences = np.random.default_rng(scripts).normal(0.4, 1, scripts)
    ours = sign_flip(differences)
    theirs = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert ours.p == pytest.approx(theirs.pvalue)
    assert ours.exact
    assert ours.flips == 2**scripts
    assert ours.method == f"exact, {2**scripts} sign flips"


def test_random_signs_approximate_the_exact_test() -> None:
    differences = np.random.default_rng(2).normal(0.3, 1, EXACT_SCRIPTS)
    exact = sign_flip(differences)
    # With two more, negligible differences, not all sign assignments are tried.
    random = sign_flip(np.concatenate((differences, [1e-9, 1e-9])))
    assert (exact.exact, random.exact) == (True, False)
    assert exact.p is not None
    assert random.p == pytest.approx(exact.p, abs=4 * np.sqrt(exact.p / random.flips))
    assert random.method == "Monte Carlo, 10000 sign flips"


def test_ties_count_as_far_out_and_zeros_do_not_matter() -> None:
    differences = [0.1, 0.2, 0.3, -0.1, 0.1, 0.1, 0.2, -0.3]
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=8)]
    p = np.mean([total >= 0.6 - 1e-12 for total in sums])
    assert sign_flip(differences).p == pytest.approx(p)
    assert sign_flip([*differences, 0.0, 0.0]).p == pytest.approx(p)


def test_identical_runs_do_not_differ_and_few_scripts_have_no_p() -> None:
    same = sign_flip([0.0] * 20)
    assert (same.p, same.informative, same.method) == (1.0, False, "no script differs")
    few = sign_flip([5.0] * (MIN_CLUSTERS - 1))
    assert few.p is None
    assert few.method == few.reason == f"fewer than {MIN_CLUSTERS} scripts"


def test_one_script_has_no_spread() -> None:
    assert standard_deviation([3.0]).value is None
    one = standardised_mean([3.0])
    assert (one.value, one.reason) == (None, f"fewer than {MIN_CLUSTERS} scripts")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_differences_have_to_be_finite(wrong: float) -> None:
    differences = [1.0] * 9 + [wrong]
    for of in (sign_flip, standardised_mean):
        with pytest.raises(ValueError, match="expected finite values, got 1 of 10 that are not"):
            of(differences)


def test_tests_are_the_same_each_time() -> None:
    differences = np.random.default_rng(3).normal(0.1, 1, 60)
    assert sign_flip(differences) == sign_flip(differences)
    assert sign_flip(differences, seed=1).p != sign_flip(differences).p


def test_holm_is_as_published() -> None:
    # Holm's procedure by its definition: reject the smallest while p ≤ α/(m − i).
    p_values = np.random.default_rng(4).uniform(0, 0.05, 9).tolist()
    adjusted = holm(p_values)
    for alpha in np.linspace(0.001, 0.5, 200):
        rejected = set()
        for rank, place in enumerate(np.argsort(p_values)):
            if p_values[place] > alpha / (len(p_values) - rank):
                break
            rejected.add(int(place))
        assert rejected == {place for place, p in enumerate(adjusted) if p is not None and p <= alpha}
    assert holm([]) == []
    assert holm([None, 0.6, 0.9]) == [None, 1.0, 1.0]


def test_variants_of_a_script_are_averaged_first() -> None:
    assert cluster_means([1.0, 5.0, 3.0], ["a", "b", "a"]).tolist() == [2.0, 5.0]


def test_the_standardised_mean_equals_the_samples() -> None:
    differences = np.random.default_rng(5).normal(0.5, 1, 80)
    ours = standardised_mean(differences)
    assert ours.value == pytest.approx(differences.mean() / differences.std(ddof=1))
    # The non-central t distributions with the observed value in their tails.
    for scripts in (8, 15, 80):
        some = differences[:scripts]
        found = standardised_mean(some)
        assert found.value is not None
        assert found.interval is not None
        seen, freedom = found.value * np.sqrt(scripts), scripts - 1
        for end, share in ((found.interval.low, 0.975), (found.interval.high, 0.025)):
            assert scipy.stats.nct.cdf(seen, freedom, end * np.sqrt(scripts)) == pytest.approx(
                share, abs=2e-4
            )
    far = standardised_mean(np.linspace(99, 101, 12))
    assert far.interval is not None
    assert far.value is not None
    assert 0 < far.interval.low < far.value < far.interval.high
    few = standardised_mean([1.0, 2.0, 4.0])
    assert (few.interval, few.reason) == (None, f"fewer than {MIN_CLUSTERS} scripts")
    assert standardised_mean([]).reason == "no values"
    assert standardised_mean([0.3] * 10).reason == "undefined for these values"


def test_false_positives_are_as_rare_as_the_level() -> None:
    """At most 5 % false positives, up to chance: binary scores, three dependent variants, 15 scripts."""
    random = np.random.default_rng(6)
    trials = 400
    called = 0
    for trial in range(trials):
        easy = random.beta(1, 1, 15)[:, None]
        first, second = (random.uniform(size=(2, 15, 3)) < easy).astype(float)
        test = sign_flip((second - first).mean(axis=1), seed=trial)
        assert test.p is not None
        called += test.p < 0.05
    assert called / trials <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)


def test_false_positives_among_many_metrics_are_as_rare_after_holm() -> None:
    """Ten metrics that share half of their variance, on a scale of 1 to 5, with one to three variants."""
    random = np.random.default_rng(7)
    trials, raw, corrected = 200, 0, 0
    for _ in range(trials):
        there = np.arange(3)[:, None, None] < random.integers(1, 4, size=(1, 12, 1))
        shared = random.normal(size=(2, 3, 12, 1))
        first, second = np.clip(np.round(3 + shared + random.normal(size=(2, 3, 12, 10))), 1, 5)
        differences = np.where(there, second - first, 0).sum(axis=0) / there.sum(axis=0)
        p_values = [sign_flip(column).p for column in differences.T]
        raw += any(p is not None and p < 0.05 for p in p_values)
        corrected += any(p is not None and p < 0.05 for p in holm(p_values))
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    assert corrected / trials <= bound < raw / trials
