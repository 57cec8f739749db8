"""Measure agreement between judges, between a judge and human raters, and among raters. Pure.

Intervals resample whole scripts. Each statistic is computed for all resamples at once, from the number of
times each value was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from live_eval.analysis.statistics.intervals import Estimate, estimate_statistic, rows_in_order

__all__ = ["Level", "kendall", "krippendorff", "spearman"]

Level: TypeAlias = Literal["interval", "ordinal"]
"""The distance between two ratings: their difference, or their difference in rank."""

_Values: TypeAlias = NDArray[np.float64]

# Number of pair signs kept in memory at a time: 32 MB as float32.
_PAIRS = 1 << 23


def spearman(first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable], *, seed: int = 0) -> Estimate:
    """Return Spearman's rank correlation: Pearson's correlation of ranks, with ties at their mean rank.

    The result is undefined if all values on one side are equal. `clusters` contains each value's script.
    """
    x, y, clusters = _pairs(first, second, clusters)
    one, other = _Order(x), _Order(y)

    def statistic(drawn: _Values) -> _Values:
        total = drawn.sum(axis=1, keepdims=True)
        ranks = [order.ranks(drawn) for order in (one, other)]
        u, v = (rank - (drawn * rank).sum(axis=1, keepdims=True) / total for rank in ranks)
        products = [(drawn * a * b).sum(axis=1) for a, b in ((u, v), (u, u), (v, v))]
        return _ratio(products[0], np.sqrt(products[1] * products[2]))

    return estimate_statistic(statistic, clusters, seed=seed)


def kendall(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    block_pairs: int = _PAIRS,
) -> Estimate:
    """Return Kendall's tau-b: concordant minus discordant pairs, normalised by the pairs without ties.

    ``τ_b = (C − D) / √((N − T_x)(N − T_y))`` with N pairs, T_x of them tied in `first` and T_y in `second`.
    The result is undefined if all values on one side are equal. Source: Kendall, Biometrika 33:3 (1945). To
    limit memory, about `block_pairs` pairs are compared at a time.
    """
    x, y, clusters = _pairs(first, second, clusters)
    one, other = _Order(x), _Order(y)

    def statistic(drawn: _Values) -> _Values:
        # Sums of signs are integers below 2^24, which float32 represents exactly.
        light = drawn.astype(np.float32)
        excess = np.zeros(len(drawn))
        step = max(1, block_pairs // max(1, len(x)))
        for begin in range(0, len(x), step):
            rows = slice(begin, begin + step)
            signs = np.sign(x[:, None] - x[None, rows]) * np.sign(y[:, None] - y[None, rows])
            excess += ((light @ signs.astype(np.float32)) * drawn[:, rows]).sum(axis=1)
        return _ratio(excess, np.sqrt(one.untied(drawn) * other.untied(drawn)))

    return estimate_statistic(statistic, clusters, seed=seed)


def krippendorff(
    ratings: ArrayLike, clusters: Sequence[Hashable], level: Level = "interval", *, seed: int = 0
) -> Estimate:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for chance agreement, negative below chance.

    ``α = 1 − D_o / D_e``, where D_o is the mean squared distance between ratings of the same unit, and D_e
    that between any two ratings. The distance is the difference between the ratings (interval) or between
    their mean ranks among all ratings (ordinal, which equals Krippendorff's ``Σ n_g − (n_c + n_k) / 2``).
    Units with fewer than two ratings are excluded. Alpha is undefined if all ratings are equal. Source:
    Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).

    Args:
        ratings: Shape (units, raters); NaN for a missing rating.
        clusters: Script of each unit.
        level: Scale of the ratings, which determines the distance between two ratings.

    Returns:
        The alpha; its `n` counts the units with at least two ratings.
    """
    table = np.asarray(ratings, np.float64)
    paired = (~np.isnan(table)).sum(axis=1) >= 2
    table = table[paired]
    kept = [cluster for cluster, keep in zip(clusters, paired, strict=True) if keep]
    if not kept:
        return Estimate(None, 0, 0, reason="no unit has two ratings")
    order = rows_in_order(kept, *table.T)
    table, kept = table[order], [kept[place] for place in order]
    rated = ~np.isnan(table)
    sizes = rated.sum(axis=1).astype(np.float64)
    unit, values = np.nonzero(rated)[0], table[rated]
    ranked = _Order(values)

    def statistic(drawn: _Values) -> _Values:
        by_rating = drawn[:, unit]
        placed = ranked.ranks(by_rating) if level == "ordinal" else values[None, :]
        # Centre the values to avoid cancellation in the sums of squares below.
        count = by_rating.sum(axis=1)
        centred = placed - (by_rating * placed).sum(axis=1, keepdims=True) / count[:, None]
        starts = np.concatenate(([0], np.cumsum(sizes.astype(np.int64))[:-1]))
        sums = np.add.reduceat(centred, starts, axis=1)
        squares = np.add.reduceat(np.square(centred), starts, axis=1)
        observed = (drawn * (sizes * squares - np.square(sums)) / (sizes - 1)).sum(axis=1) / count
        total, total_squares = (drawn * sums).sum(axis=1), (drawn * squares).sum(axis=1)
        expected = (count * total_squares - np.square(total)) / (count * (count - 1))
        # If all drawn ratings are equal, the computed distance is only rounding error.
        return 1 - _ratio(observed, np.where(expected > 1e-12 * np.ptp(placed) ** 2, expected, 0.0))

    return estimate_statistic(statistic, kept, seed=seed)


class _Order:
    """Sorted values with ranks and ties for resamples that repeat values."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._order = np.argsort(values, kind="stable")
        unique, self._codes = np.unique(values, return_inverse=True)
        self._starts = np.searchsorted(values[self._order], unique)

    def _counts(self, drawn: _Values) -> _Values:
        """Return the number of draws of each distinct value, shape (resamples, distinct)."""
        return np.add.reduceat(drawn[:, self._order], self._starts, axis=1)

    def ranks(self, drawn: _Values) -> _Values:
        """Return each value's rank among the drawn values, shape (resamples, n); ties get their mean rank."""
        counts = self._counts(drawn)
        return (np.cumsum(counts, axis=1) - (counts - 1) / 2)[:, self._codes]

    def untied(self, drawn: _Values) -> _Values:
        """Return twice the number of drawn pairs that are not tied, shape (resamples,)."""
        return np.asarray(drawn.sum(axis=1) ** 2 - np.square(self._counts(drawn)).sum(axis=1), np.float64)


def _pairs(
    first: ArrayLike, second: ArrayLike, clusters: Sequence[Hashable]
) -> tuple[NDArray[np.float64], NDArray[np.float64], Sequence[Hashable]]:
    """Return the two values and the script of each turn, in an order that does not depend on the input."""
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    order = rows_in_order(clusters, x, y)
    return x[order], y[order], [clusters[place] for place in order]


def _ratio(over: _Values, under: _Values) -> _Values:
    """Divide `over` by `under`; NaN where `under` is 0."""
    return np.where(under > 0, over / np.where(under > 0, under, 1.0), math.nan)
