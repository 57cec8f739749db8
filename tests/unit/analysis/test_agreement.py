"""Correlations and Krippendorff's alpha, compared with scipy and nltk."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from nltk.metrics.agreement import AnnotationTask
from numpy.typing import NDArray
from scipy import stats

from live_eval.analysis.agreement import Level, kendall, krippendorff, spearman
from live_eval.analysis.statistics.intervals import Estimate

RANDOM = np.random.default_rng(5)


def ratings_with_gaps(units: int, raters: int, choices: int) -> NDArray[np.float64]:
    random = np.random.default_rng(units)
    truth = random.integers(1, choices + 1, units)[:, None]
    table = np.clip(truth + random.integers(-1, 2, (units, raters)), 1, choices).astype(np.float64)
    table[random.random((units, raters)) < 0.2] = math.nan
    return np.asarray(table)


def nltk_alpha(table: NDArray[np.float64], level: Level) -> float:
    """Return alpha computed by nltk, with Krippendorff's distances written out."""
    pairable = table[(~np.isnan(table)).sum(axis=1) >= 2]
    values, counts = np.unique(pairable[~np.isnan(pairable)], return_counts=True)
    frequency = dict(zip(values.tolist(), counts.tolist(), strict=True))

    def distance(one: float, other: float) -> float:
        if level == "interval":
            return float((one - other) ** 2)
        low, high = sorted((one, other))
        between = sum(count for value, count in frequency.items() if low <= value <= high)
        return float((between - (frequency[low] + frequency[high]) / 2) ** 2)

    data = [
        (str(rater), str(unit), float(value))
        for unit, row in enumerate(pairable)
        for rater, value in enumerate(row)
        if not math.isnan(value)
    ]
    return float(AnnotationTask(data, distance).alpha())


class TestCorrelations:
    @pytest.mark.parametrize("choices", [3, 1_000_000])
    @pytest.mark.parametrize("n", [2, 9, 60])
    def test_as_scipy_computes_them(self, n: int, choices: int) -> None:
        random = np.random.default_rng(n)
        x = random.integers(0, choices, n)
        y = x + random.integers(0, choices, n)
        if len(set(x.tolist())) > 1 and len(set(y.tolist())) > 1:
            assert spearman(x, y, range(n)).value == pytest.approx(stats.spearmanr(x, y).statistic)
            assert kendall(x, y, range(n)).value == pytest.approx(stats.kendalltau(x, y).statistic)

    @pytest.mark.slow
    def test_a_resample_counts_like_its_values_repeated(self) -> None:
        # The interval is the percentile interval of a plain bootstrap, computed here slowly.
        random = np.random.default_rng(1)
        x = random.integers(0, 8, 30).astype(float)
        y = x + random.normal(0, 3, 30)
        for ours, theirs in ((spearman, stats.spearmanr), (kendall, stats.kendalltau)):
            found = ours(x, y, range(30)).interval
            draws = [random.integers(0, 30, 30) for _ in range(2000)]
            slow = np.quantile([theirs(x[d], y[d]).statistic for d in draws], [0.02, 0.98])
            assert found is not None
            assert (found.low, found.high) == pytest.approx(tuple(slow), abs=0.05)

    @pytest.mark.parametrize("correlation", [spearman, kendall])
    def test_signs_and_edge_cases(self, correlation: Callable[..., Estimate]) -> None:
        rising = np.arange(20.0)
        perfect = correlation(rising, rising**3, range(20))
        assert perfect.value == pytest.approx(1)
        assert (perfect.interval, perfect.reason) == (None, "all resamples are equal")
        assert correlation(rising, -rising, range(20)).value == pytest.approx(-1)
        alike = correlation(rising, np.ones(20), range(20))
        assert alike.value is None
        assert "undefined" in alike.reason
        assert correlation([], [], []).value is None

    def test_scripts_are_resampled_and_few_give_no_interval(self) -> None:
        x = RANDOM.normal(size=30)
        assert spearman(x, x + RANDOM.normal(size=30), [i // 5 for i in range(30)]).interval is None

    def test_mostly_equal_values_have_no_interval(self) -> None:
        x = np.zeros(12)
        x[0] = 1
        found = spearman(x, np.arange(12.0), range(12))
        assert found.value is not None
        assert found.interval is None
        assert "resamples" in found.reason

    def test_many_turns_are_processed_in_blocks(self) -> None:
        x, y = RANDOM.normal(size=(2, 50))
        whole = kendall(x, y, range(50))
        assert kendall(x, y, range(50), block_pairs=60) == whole


class TestKrippendorff:
    # Krippendorff (2011), table D: four observers, twelve units.
    PUBLISHED = np.asarray(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, math.nan, math.nan, math.nan],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, math.nan, 3],
            [math.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, math.nan],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, math.nan],
        ]
    ).T

    def test_the_published_example(self) -> None:
        assert krippendorff(self.PUBLISHED, range(12), "interval").value == pytest.approx(0.849, abs=5e-4)
        assert krippendorff(self.PUBLISHED, range(12), "ordinal").value == pytest.approx(0.815, abs=5e-4)
        assert krippendorff(self.PUBLISHED, range(12)).n == 11

    @pytest.mark.parametrize("level", ["interval", "ordinal"])
    @pytest.mark.parametrize(("units", "raters", "choices"), [(20, 2, 5), (40, 5, 3), (15, 3, 100)])
    def test_as_nltk_computes_it(self, units: int, raters: int, choices: int, level: Level) -> None:
        table = ratings_with_gaps(units, raters, choices)
        ours = krippendorff(table, range(units), level)
        assert ours.value == pytest.approx(nltk_alpha(table, level), abs=1e-12)

    @pytest.mark.parametrize("level", ["interval", "ordinal"])
    def test_a_resample_counts_like_its_units_repeated(self, level: Level) -> None:
        table = ratings_with_gaps(12, 3, 5)
        found = krippendorff(table, range(12), level).interval
        random = np.random.default_rng(2)
        slow = [nltk_alpha(table[random.integers(0, 12, 12)], level) for _ in range(400)]
        assert found is not None
        assert found.low == pytest.approx(np.quantile(slow, 0.01), abs=0.15)
        assert found.high == pytest.approx(np.quantile(slow, 0.99), abs=0.05)

    def test_edge_cases(self) -> None:
        same = np.repeat(np.arange(10.0)[:, None], 3, axis=1)
        assert krippendorff(same, range(10)).value == 1
        assert krippendorff(np.ones((10, 2)), range(10)).value is None
        assert krippendorff(same[:, :1], range(10)).reason == "no unit has two ratings"
        assert krippendorff(np.zeros((0, 2)), []).value is None

    def test_large_numbers_lose_no_digits(self) -> None:
        table = ratings_with_gaps(30, 3, 5)
        plain, moved = krippendorff(table, range(30)), krippendorff(table + 1e6, range(30))
        assert moved.value == pytest.approx(plain.value, abs=1e-6)
