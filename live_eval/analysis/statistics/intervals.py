"""Compute quantiles, distributions and intervals for turns that are dependent within scripts.

The variants and repetitions of a script are not independent, so the bootstrap draws whole *scripts* with
replacement. Intervals are percentile intervals of `RESAMPLES` resamples, with the tails moved out by
Student's t and the factor √(k/(k−1)) for k scripts ("expanded percentile interval": Hesterberg, "What
Teachers Should Know About the Bootstrap", The American Statistician 69:4, 2015, section 5.3), since the plain
percentile interval is too narrow for few scripts.

An interval requires `MIN_CLUSTERS` scripts. The interval of a quantile also requires `MIN_BEYOND` expected
values beyond it (100 turns for the 95th percentile), and that of a mean requires values that differ. A
quantile other than the median requires `_MIN_BEYOND_VALUE` expected values beyond it (30 turns for the 95th
percentile), because it would otherwise be close to the maximum.

Scripts are numbered in name order, so results do not depend on the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ALL_TURNS",
    "LEVEL",
    "MIN_BEYOND",
    "MIN_CLUSTERS",
    "OVER_SCRIPTS",
    "RESAMPLES",
    "SCRIPTS",
    "Ecdf",
    "Estimate",
    "Interval",
    "cluster_numbers",
    "ecdf",
    "estimate_mean",
    "estimate_means",
    "estimate_quantile",
    "estimate_share",
    "estimate_statistic",
    "finite",
    "interval_json",
    "paired_difference",
    "quantile",
    "rounded",
    "rows_in_order",
    "share_of",
    "too_few_for",
]

RESAMPLES = 2_000
LEVEL = 0.95
MIN_CLUSTERS = 8
MIN_BEYOND = 5
_MIN_BEYOND_VALUE = 1.5
SCRIPTS = "scripts"
"""The default resampling unit."""
ALL_TURNS = "all turns"
"""Name of the estimator for a single run: percentiles and means over its turns."""
OVER_SCRIPTS = "mean over scripts"
"""Name of the estimator for comparisons: the mean over scripts of the mean within each script."""
_BLOCK = 250
_MOST_FLOATS = 300_000
"""Number of draws kept as floats: 2.4 MB."""
_STEPS_PER_SEARCH = 400
"""Time of a search step of a quantile, in steps of a matrix product; measured."""
# Smaller differences are rounding errors.
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """A confidence interval with the nominal coverage `LEVEL`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval.

    Args:
        value: Value; None if there is no data.
        n: Number of underlying values.
        clusters: Number of scripts of these values.
        reason: Reason for a missing value or interval; empty if both exist.
    """

    value: float | None
    n: int
    clusters: int
    interval: Interval | None = None
    reason: str = ""

    def as_json(self, digits: int = 6, *, scripts: bool = False) -> dict[str, Any]:
        """Return the estimate as rounded JSON values; with `scripts`, add the number of scripts."""
        return {
            "value": rounded(self.value, digits),
            "n": self.n,
            "interval": interval_json(self.interval, digits),
            "reason": self.reason,
            **({"scripts": self.clusters} if scripts else {}),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Ecdf:
    """An empirical distribution function: a step up at each value.

    Args:
        values: Ascending values, shape (n,).
        shares: Cumulative share at each value, shape (n,).
        total: Number of values, including missing (censored) ones, which keep the last share below 1.
    """

    values: NDArray[np.float64]
    shares: NDArray[np.float64]
    total: int


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a value, or None, rounded for JSON."""
    return None if value is None else round(value, digits)


def interval_json(interval: Interval | None, digits: int = 6) -> list[float] | None:
    """Return an interval, or None, as ``[low, high]``, rounded for JSON."""
    return None if interval is None else [round(interval.low, digits), round(interval.high, digits)]


def finite(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values as an array, shape (n,), after checking that all are finite.

    Raises:
        ValueError: A value is NaN or infinite.
    """
    array = np.asarray(values, np.float64)
    wrong = len(array) - int(np.isfinite(array).sum())
    if wrong:
        raise ValueError(f"expected finite values, got {wrong} of {len(array)} that are not")
    return array


def quantile(values: ArrayLike, share: float) -> float | None:
    """Return a quantile by linear interpolation (Hyndman and Fan's type 7); None if there are no values.

    Raises:
        ValueError: A value is not finite.

    >>> quantile([1, 2, 3, 4], 0.5)
    2.5
    """
    array = finite(values)
    return float(np.quantile(array, share)) if len(array) else None


def too_few_for(share: float, n: int) -> str:
    """Return why n values are too few for a quantile; empty if they are enough.

    >>> too_few_for(0.95, 29), too_few_for(0.95, 30), too_few_for(0.5, 1)
    ('fewer than 30 values', '', '')
    """
    if not n:
        return "no values"
    return "" if share == 0.5 else _too_few(share, n, _MIN_BEYOND_VALUE)


def _too_few(share: float, n: int, beyond: float) -> str:
    # Round, because 1 − 0.95 is slightly more than 0.05 in floating point.
    needed = math.ceil(round(beyond / min(share, 1 - share), 6))
    return f"fewer than {needed} values" if n < needed else ""


def ecdf(values: ArrayLike, total: int | None = None) -> Ecdf:
    """Return the empirical distribution of values, shape (n,); `total` is n by default."""
    ascending = np.sort(np.asarray(values, np.float64))
    total = len(ascending) if total is None else total
    return Ecdf(ascending, np.arange(1, len(ascending) + 1) / max(1, total), total)


def estimate_mean(
    values: ArrayLike, clusters: Sequence[Hashable], *, drawn_as: str = SCRIPTS, seed: int = 0
) -> Estimate:
    """Return the mean of values with its interval.

    Args:
        values: Values, shape (n,).
        clusters: Script, or other resampling unit, of each value.
        drawn_as: Name of the units, for reasons.
        seed: Seed of the resampling.

    Raises:
        ValueError: A value is not finite, or has no cluster.
    """
    return estimate_means([values], clusters, drawn_as=drawn_as, seed=seed)[0]


def estimate_means(
    columns: Sequence[ArrayLike], clusters: Sequence[Hashable], *, drawn_as: str = SCRIPTS, seed: int = 0
) -> list[Estimate]:
    """Return the mean of each column, of shape (n,), with its interval; see `estimate_mean`."""
    arrays = [finite(values) for values in columns]
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"expected columns of one length, got {[len(array) for array in arrays]}")
    if not arrays:
        return []
    members, count = cluster_numbers(clusters, len(arrays[0]))
    if not len(members):
        return [Estimate(None, 0, 0, reason="no values") for _ in arrays]
    # Sort, so that sums do not depend on the input order.
    orders = [np.lexsort((array, members)) for array in arrays]
    arrays = [array[order] for array, order in zip(arrays, orders, strict=True)]
    members = np.sort(members)
    sums = np.stack([np.bincount(members, array, count) for array in arrays], axis=1)
    sizes = np.bincount(members, minlength=count).astype(np.float64)

    def statistic(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(drawn @ sums / (drawn @ sizes)[:, None], np.float64)

    no_width = [
        f"all {drawn_as} have the same mean" if np.ptp(array) else "all values are equal" for array in arrays
    ]
    found = _intervals(statistic, count, seed, 0.0, no_width, drawn_as)
    return [
        Estimate(float(array.mean()), len(array), count, interval, reason)
        for array, (interval, reason) in zip(arrays, found, strict=True)
    ]


def estimate_share(
    values: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    whole: float = 100.0,
    drawn_as: str = SCRIPTS,
    seed: int = 0,
) -> Estimate:
    """Return the mean of values between 0 and `whole` with its interval; see `estimate_mean`.

    If all values are 0, or all are `whole`, all resamples are equal. The interval is then the exact interval
    of a binomial share with one trial per script (Clopper and Pearson, Biometrika 26:4, 1934). For k scripts
    that all equal `whole`, its lower end is ``(α/2)^(1/k)`` of the whole.

    >>> estimate_share([100.0] * 10, range(10)).interval.low  # doctest: +ELLIPSIS
    69.15...
    """
    return share_of(estimate_mean(values, clusters, drawn_as=drawn_as, seed=seed), whole)


def share_of(mean: Estimate, whole: float = 100.0) -> Estimate:
    """Return the mean with the interval of `estimate_share` if all its values are 0 or all are `whole`."""
    if mean.clusters < MIN_CLUSTERS or mean.value not in (0.0, whole):
        return mean
    reach = whole * ((1 - LEVEL) / 2) ** (1 / mean.clusters)
    interval = Interval(reach, whole) if mean.value else Interval(0.0, whole - reach)
    return replace(mean, interval=interval, reason="")


def estimate_quantile(
    values: ArrayLike, clusters: Sequence[Hashable], share: float, *, drawn_as: str = SCRIPTS, seed: int = 0
) -> Estimate:
    """Return a quantile with its interval; see `quantile` and `estimate_mean`.

    With ties around the quantile, the interval may have zero width. See `too_few_for` for the minimum number
    of values.
    """
    array = finite(values)
    members, count = cluster_numbers(clusters, len(array))
    if too_few := too_few_for(share, len(array)):
        return Estimate(None, len(array), count, reason=too_few)
    order = np.argsort(array, kind="stable")
    ascending, owners = array[order], members[order]
    blocks = _Blocks(owners, count)

    def statistic(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        # A value occurs in a resample as often as its script was drawn.
        upto = blocks.counts(drawn)
        at = share * (upto[:, -1] - 1)
        below = np.floor(at)
        low = ascending[blocks.places(drawn, upto, below)]
        high = ascending[blocks.places(drawn, upto, np.minimum(below + 1, upto[:, -1] - 1))]
        return np.asarray(low + (at - below) * (high - low), np.float64)

    value = float(np.quantile(array, share))
    if count >= MIN_CLUSTERS and (too_few := _too_few(share, len(array), MIN_BEYOND)):
        return Estimate(value, len(array), count, reason=too_few)
    interval, reason = _interval(statistic, count, seed, drawn_as=drawn_as)
    return Estimate(value, len(array), count, interval, reason)


def estimate_statistic(
    compute: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    clusters: Sequence[Hashable],
    *,
    most_undefined: float = 0.05,
    no_width: str = "all resamples are equal",
    seed: int = 0,
) -> Estimate:
    """Return an arbitrary statistic with its interval.

    The resampling does not depend on the order of the values, but sums in `compute` may round differently.

    Args:
        compute: Function that maps the number of draws of each value, shape (resamples, n), to the statistic
            of each resample, shape (resamples,), or NaN if undefined.
        clusters: Script of each value, shape (n,).
        most_undefined: Maximum share of undefined resamples, which are excluded; above it, there is no
            interval. Pass a smaller share if all undefined resamples would lie beyond the same end.
        no_width: Reason to give instead of a zero-width interval; empty to return the interval.
        seed: Seed of the resampling.
    """
    members, count = cluster_numbers(clusters, len(clusters))
    if not len(members):
        return Estimate(None, 0, 0, reason="no values")
    value = float(compute(np.ones((1, len(members))))[0])
    if math.isnan(value):
        return Estimate(None, len(members), count, reason="undefined for these values")

    def statistic(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return compute(drawn[:, members])

    interval, reason = _interval(statistic, count, seed, most_undefined, no_width)
    return Estimate(value, len(members), count, interval, reason)


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[Hashable],
    *,
    drawn_as: str = SCRIPTS,
    seed: int = 0,
) -> Estimate:
    """Return the mean of ``second − first`` over pairs with its interval; see `estimate_mean`."""
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    return estimate_mean(differences, clusters, drawn_as=drawn_as, seed=seed)


def cluster_numbers(clusters: Sequence[Hashable], n: int) -> tuple[NDArray[np.int64], int]:
    """Number the clusters; return the number of each value's cluster, and the number of clusters.

    Clusters are numbered in name order; all names must have the same type.

    Raises:
        ValueError: The number of clusters is not the number of values.
    """
    if len(clusters) != n:
        raise ValueError(f"expected one cluster per value, got {len(clusters)} for {n} values")
    ordered: list[Any] = list(set(clusters))
    ordered.sort()
    numbers = {cluster: number for number, cluster in enumerate(ordered)}
    return np.asarray([numbers[cluster] for cluster in clusters], np.int64), len(numbers)


def rows_in_order(clusters: Sequence[Hashable], *columns: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order that sorts rows by cluster, then by their values from the last column to the first.

    Sums in this order are independent of the input order.
    """
    return np.lexsort((*columns, cluster_numbers(clusters, len(clusters))[0]))


class _Blocks:
    """An index of ascending values that finds a rank in resamples, first its block, then its position."""

    def __init__(self, owners: NDArray[np.int64], clusters: int) -> None:
        # Per resample, counting takes clusters × blocks steps, and a search len(owners) / blocks slower ones.
        few = max(1, math.isqrt(_STEPS_PER_SEARCH * len(owners) // clusters))
        self._size = -(-len(owners) // few)
        blocks = -(-len(owners) // self._size)
        cells = owners * blocks + np.arange(len(owners)) // self._size
        counts = np.bincount(cells, minlength=clusters * blocks).reshape(clusters, blocks)
        self._upto = np.cumsum(counts, axis=1, dtype=np.float64)
        # Padding is never drawn.
        padded = np.pad(owners, (0, self._size * blocks - len(owners)), mode="edge")
        self._owners = padded.reshape(blocks, self._size)

    def counts(self, drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cumulative number of values at the end of each block, shape (resamples, blocks)."""
        return drawn @ self._upto

    def places(
        self, drawn: NDArray[np.float64], upto: NDArray[np.float64], rank: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the position (from 0) of the value with each resample's rank, shape (resamples,)."""
        rows = np.arange(len(drawn))
        block = (upto <= rank[:, None]).sum(axis=1)
        before = np.where(block > 0, upto[rows, block - 1], 0)
        within = before[:, None] + np.cumsum(drawn[rows[:, None], self._owners[block]], axis=1)
        return np.asarray(block * self._size + (within <= rank[:, None]).sum(axis=1), np.int64)


def _interval(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    clusters: int,
    seed: int,
    most_undefined: float = 0.0,
    no_width: str = "",
    drawn_as: str = SCRIPTS,
) -> tuple[Interval | None, str]:
    def column(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return statistic(drawn)[:, None]

    return _intervals(column, clusters, seed, most_undefined, [no_width], drawn_as)[0]


def _intervals(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    clusters: int,
    seed: int,
    most_undefined: float,
    no_width: Sequence[str],
    drawn_as: str,
) -> list[tuple[Interval | None, str]]:
    """Return the interval of each column of a statistic, or the reason why it is missing.

    `statistic` maps draws, shape (resamples, clusters), to values, shape (resamples, columns).
    """
    if clusters < MIN_CLUSTERS:
        return [(None, f"fewer than {MIN_CLUSTERS} {drawn_as}")] * len(no_width)
    drawn = _draws(clusters, RESAMPLES, seed)
    blocks = (drawn[at : at + _BLOCK].astype(np.float64, copy=False) for at in range(0, RESAMPLES, _BLOCK))
    values = np.concatenate([statistic(block) for block in blocks])
    undefined = np.isnan(values).sum(axis=0)
    defined = undefined <= most_undefined * RESAMPLES
    tail = _tail(clusters)
    quantile = np.nanquantile if undefined.any() else np.quantile  # np.quantile is faster
    ends = iter(quantile(values[:, defined], [tail, 1 - tail], axis=0).T.tolist())
    found: list[tuple[Interval | None, str]] = []
    for missing, is_defined, reason in zip(undefined.tolist(), defined, no_width, strict=True):
        if not is_defined:
            found.append((None, f"undefined in {missing} of {RESAMPLES} resamples"))
            continue
        low, high = next(ends)
        too_narrow = reason and high - low <= _ROUNDING * max(abs(low), abs(high))
        found.append((None, reason) if too_narrow else (Interval(low, high), ""))
    return found


@lru_cache(maxsize=8)
def _draws(clusters: int, resamples: int, seed: int) -> NDArray[np.float64] | NDArray[np.uint8]:
    """Return the number of draws of each cluster in each resample; cached for the metrics of a run.

    With many clusters, counts are stored as uint8, which saves memory but costs a conversion per use. No
    cluster is then drawn 256 times.
    """
    random = np.random.default_rng(seed)
    few = resamples * clusters <= _MOST_FLOATS
    counts = np.empty((resamples, clusters), np.float64 if few else np.uint8)
    for at in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - at)
        chosen = random.integers(0, clusters, size=(rows, clusters))
        chosen += clusters * np.arange(rows)[:, None]
        counts[at : at + rows] = np.bincount(chosen.ravel(), minlength=rows * clusters).reshape(
            rows, clusters
        )
    return counts


@lru_cache(maxsize=64)
def _tail(clusters: int) -> float:
    """Return the share of resamples to cut off at each end (Hesterberg 2015, equation 15)."""
    from scipy.special import ndtr, stdtrit

    t = stdtrit(clusters - 1, (1 + LEVEL) / 2)
    return float(ndtr(-math.sqrt(clusters / (clusters - 1)) * t))
