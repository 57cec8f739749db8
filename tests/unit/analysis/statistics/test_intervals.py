"""Statistics against independent references, and the coverage of intervals by simulation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from live_eval.analysis.statistics import intervals as statistics
from live_eval.analysis.statistics.intervals import (
    MIN_CLUSTERS,
    Estimate,
    Interval,
    ecdf,
    estimate_mean,
    estimate_quantile,
    estimate_share,
    estimate_statistic,
    paired_difference,
    quantile,
)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95, 1.0])
def test_quantiles_are_type_seven(share: float) -> None:
    values = np.random.default_rng(1).exponential(size=37)
    theirs = scipy.stats.mstats.mquantiles(values, [share], alphap=1, betap=1)[0]
    assert quantile(values, share) == pytest.approx(float(theirs))


def test_an_empty_sample_has_no_quantile_and_no_mean() -> None:
    assert quantile([], 0.5) is None
    assert estimate_mean([], []) == Estimate(None, 0, 0, reason="no values")
    assert estimate_quantile([], [], 0.5) == Estimate(None, 0, 0, reason="no values")


def test_the_distribution_equals_scipys_and_stays_below_one_with_missing_values() -> None:
    values = [3.0, 1.0, 2.0, 2.0]
    ours = ecdf(values)
    theirs = scipy.stats.ecdf(values).cdf
    np.testing.assert_allclose(ours.shares[[0, 2, 3]], theirs.probabilities)
    censored = ecdf(values, total=8)
    assert censored.shares[-1] == 0.5
    assert censored.total == 8
    assert len(ecdf([]).values) == 0


@pytest.mark.parametrize("scripts", [8, 9, 11, 31, 1001])
def test_tails_are_moved_out_by_students_t(scripts: int) -> None:
    reach = np.sqrt(scripts / (scripts - 1)) * scipy.stats.t.ppf(0.975, scripts - 1)
    assert statistics._tail(scripts) == pytest.approx(scipy.stats.norm.sf(reach), rel=1e-9)


def test_a_resampled_quantile_is_numpys_of_the_resampled_values() -> None:
    """Quantiles of weighted values equal those of values repeated as often as drawn."""
    random = np.random.default_rng(3)
    values = random.normal(size=60)
    clusters = random.integers(0, 12, size=60)

    def repeated(draws: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([np.quantile(np.repeat(values, draw.astype(int)), 0.7) for draw in draws])

    estimate = estimate_quantile(values, clusters.tolist(), 0.7, seed=5)
    expected = estimate_statistic(repeated, clusters.tolist(), seed=5)
    assert estimate.value == pytest.approx(np.quantile(values, 0.7))
    assert estimate.interval is not None
    assert expected.interval is not None
    ours, theirs = ((found.low, found.high) for found in (estimate.interval, expected.interval))
    assert ours == pytest.approx(theirs)


def test_the_interval_of_a_mean_of_independent_values_is_scipys() -> None:
    values = np.random.default_rng(4).normal(5, 2, size=200)
    ours = estimate_mean(values, range(200))
    assert ours.interval is not None
    theirs = scipy.stats.t.interval(0.95, 199, values.mean(), scipy.stats.sem(values))
    assert (ours.interval.low, ours.interval.high) == pytest.approx(theirs, abs=0.04)
    assert (ours.n, ours.clusters) == (200, 200)


def test_intervals_are_the_same_each_time_and_differ_by_seed() -> None:
    values = np.random.default_rng(4).normal(size=50)
    assert estimate_mean(values, range(50)) == estimate_mean(values, range(50))
    assert estimate_mean(values, range(50), seed=1).interval != estimate_mean(values, range(50)).interval


def test_variants_of_one_script_do_not_count_as_independent() -> None:
    scripts = np.random.default_rng(6).normal(size=40)
    values = np.repeat(scripts, 3)
    as_scripts = estimate_mean(values, np.repeat(np.arange(40), 3).tolist()).interval
    as_turns = estimate_mean(values, range(120)).interval
    assert as_scripts is not None
    assert as_turns is not None
    ratio = (as_scripts.high - as_scripts.low) / (as_turns.high - as_turns.low)
    assert ratio == pytest.approx(np.sqrt(3), rel=0.1)


def test_a_meaningless_interval_is_withheld() -> None:
    few = estimate_mean([1.0, 2.0, 3.0], ["a", "b", "b"])
    assert (few.interval, few.clusters, few.reason) == (None, 2, f"fewer than {MIN_CLUSTERS} scripts")
    assert few.value == pytest.approx(2.0)
    rare = estimate_quantile(np.arange(99.0), range(99), 0.95)
    assert (rare.interval, rare.reason) == (None, "fewer than 100 values")
    assert estimate_quantile(np.arange(100.0), range(100), 0.95).interval is not None
    with pytest.raises(ValueError, match="one cluster per value"):
        estimate_mean([1.0], [])


@pytest.mark.parametrize(("share", "fewest"), [(0.95, 30), (0.99, 150), (0.05, 30), (0.5, 1)])
def test_a_quantile_of_too_few_values_is_withheld(share: float, fewest: int) -> None:
    values = np.arange(float(fewest))
    assert estimate_quantile(values, range(fewest), share).value is not None
    few = estimate_quantile(values[1:], range(1, fewest), share)
    assert few.value is None
    assert few.reason == (f"fewer than {fewest} values" if fewest > 1 else "no values")


def test_differences_are_paired() -> None:
    random = np.random.default_rng(8)
    first = random.normal(1000, 300, size=60)
    second = first + 20 + random.normal(0, 5, size=60)
    paired = paired_difference(first, second, range(60))
    assert paired.value == pytest.approx(20, abs=2)
    assert paired.interval is not None
    assert 0 < paired.interval.low < 20 < paired.interval.high


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [8, 24, 100])
@pytest.mark.parametrize("what", ["mean", "median"])
def test_intervals_have_the_nominal_coverage(
    scripts: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About 95 % of intervals contain the truth: skewed latencies, three dependent turns per script."""
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    random = np.random.default_rng(9)
    trials = 400
    clusters = np.repeat(np.arange(scripts), 3).tolist()
    truth = np.exp((0.4**2 + 0.3**2) / 2) if what == "mean" else 1.0
    held = 0
    for trial in range(trials):
        values = np.exp(np.repeat(random.normal(0, 0.4, scripts), 3) + random.normal(0, 0.3, 3 * scripts))
        estimate = (
            estimate_mean(values, clusters, seed=trial)
            if what == "mean"
            else estimate_quantile(values, clusters, 0.5, seed=trial)
        )
        assert estimate.interval is not None
        held += estimate.interval.low <= truth <= estimate.interval.high
    assert 0.91 <= held / trials <= 0.985, held / trials


@pytest.mark.parametrize("clusters", [8, 30])
def test_a_share_of_all_or_none_has_the_exact_binomial_interval(clusters: int) -> None:
    for right in (0, clusters):
        found = estimate_share([100.0 * bool(right)] * clusters, range(clusters))
        theirs = scipy.stats.binomtest(right, clusters).proportion_ci(0.95, method="exact")
        assert found.interval is not None
        assert (found.interval.low, found.interval.high) == pytest.approx(
            (100 * theirs.low, 100 * theirs.high)
        )
    mixed = [100.0, *[0.0] * (clusters - 1)]
    assert estimate_share(mixed, range(clusters)) == estimate_mean(mixed, range(clusters))
    assert estimate_share([100.0] * 7, range(7)).interval is None


def test_identical_values_have_no_interval_of_their_mean() -> None:
    alike = estimate_mean([5.0] * 24, [number // 3 for number in range(24)])
    assert (alike.value, alike.interval, alike.reason) == (5.0, None, "all values are equal")
    # 0.1 + 0.1 + 0.1 is not 3 · 0.1.
    assert estimate_mean([0.1] * 30, [number // 3 for number in range(30)]).interval is None
    differences = paired_difference(np.arange(10.0), np.arange(10.0), range(10))
    assert (differences.value, differences.reason) == (0.0, "all values are equal")
    paired = estimate_mean([1.0, 3.0] * 10, [number // 2 for number in range(20)])
    assert (paired.interval, paired.reason) == (None, "all scripts have the same mean")
    assert estimate_mean([5.0] * 7, range(7)).reason == "fewer than 8 scripts"
    # The median of equal values has an interval of zero width.
    median = estimate_quantile([5.0] * 20, range(20), 0.5)
    assert (median.interval, median.reason) == (Interval(5.0, 5.0), "")


def test_a_constant_statistic_has_an_interval_only_on_request() -> None:
    def figure(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.zeros(len(drawn))

    found = estimate_statistic(figure, range(10))
    assert (found.value, found.interval, found.reason) == (0.0, None, "all resamples are equal")
    assert estimate_statistic(figure, range(10), no_width="").interval == Interval(0.0, 0.0)


def test_a_share_may_be_relative_to_one() -> None:
    per_cent, of_one = estimate_share([100.0] * 10, range(10)), estimate_share([1.0] * 10, range(10), whole=1)
    assert per_cent.interval is not None
    assert of_one.interval == Interval(per_cent.interval.low / 100, 1.0)
    assert of_one.reason == ""
