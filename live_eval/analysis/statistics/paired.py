"""Test whether two runs on the same cases differ, with sign flips, Holm's correction and Cohen's d_z.

The unit is the script: its variants and repetitions are averaged first, so that each script counts once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from live_eval.analysis.statistics.intervals import (
    LEVEL,
    MIN_CLUSTERS,
    Estimate,
    Interval,
    cluster_numbers,
    estimate_statistic,
    finite,
)

__all__ = [
    "ALPHA",
    "EXACT_SCRIPTS",
    "FLIPS",
    "SignFlip",
    "cluster_means",
    "flips_for",
    "holm",
    "least_p",
    "noncentral_below",
    "sign_flip",
    "standard_deviation",
    "standardised_mean",
]

ALPHA = round(1 - LEVEL, 10)
"""The p at or above which no difference is shown."""
EXACT_SCRIPTS = 18
"""The maximum number of differing scripts for an exact test: 2^17 assignments, since half are mirrored."""
FLIPS = 9_999
"""The number of random sign assignments with more scripts; for many tests, see `flips_for`."""
# Ratio of Holm's first significance level to the resolution of p.
_FINER = 5
# Number of signs per matrix multiplication, to fit the CPU cache.
_BLOCK = 32_768
# Sums with a smaller relative difference are equal up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The result of a sign-flip test.

    Args:
        p: Two-sided share of assignments whose sum is at least as far from 0 as the observed one; None for
            too few scripts.
        flips: Number of assignments tried, including the observed one.
        exact: Whether all assignments were tried.
        informative: Whether any script differs; otherwise, p is 1 without a test.
        reason: Reason for a missing p; empty otherwise.
    """

    p: float | None
    flips: int = 0
    exact: bool = False
    informative: bool = False
    reason: str = ""

    @property
    def method(self) -> str:
        """The method by which p was computed, as text."""
        if self.p is None:
            return self.reason
        if not self.informative:
            return "no script differs"
        return f"exact, {self.flips} sign flips" if self.exact else f"Monte Carlo, {self.flips} sign flips"


def least_p(scripts: int) -> float:
    """Return the smallest possible p of a sign-flip test with this many scripts.

    >>> least_p(8)
    0.0078125
    """
    return 2.0 ** (1 - scripts)


def flips_for(tests: int) -> int:
    """Return the number of random sign assignments for a p corrected over this many tests.

    With n assignments, p is at least 1/(n + 1). With too few, no p passes Holm's correction.

    >>> flips_for(20), flips_for(500)
    (9999, 49999)
    """
    return max(FLIPS, math.ceil(_FINER * tests / ALPHA) - 1)


def cluster_means(values: ArrayLike, clusters: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return the mean of each cluster, in name order.

    >>> cluster_means([5.0, 1.0, 3.0], ["b", "a", "a"]).tolist()
    [2.0, 5.0]
    """
    array = finite(values)
    members, count = cluster_numbers(clusters, len(array))
    order = np.lexsort((array, members))
    members, array = members[order], array[order]
    return np.asarray(np.bincount(members, array, count) / np.bincount(members, minlength=count), np.float64)


def sign_flip(differences: ArrayLike, *, flips: int = FLIPS, seed: int = 0) -> SignFlip:
    """Test whether paired differences, shape (scripts,), are centred on 0, by flipping their signs at random.

    ``p = #{|Σ s d| ≥ |Σ d|} / #s`` over assignments s of signs: all of them for up to `EXACT_SCRIPTS`
    differences that are not 0; otherwise `flips` random ones plus the observed one (Phipson and Smyth,
    "Permutation P-values Should Never Be Zero", 2010).

    The null hypothesis is that a difference is as probable as its negative. Scripts are assumed independent;
    neither a distribution nor equal variances are assumed.

    Raises:
        ValueError: A difference is not finite.

    >>> sign_flip([1.0] * 8).p  # 2 of 256 assignments are as far out
    0.0078125
    """
    array = finite(differences)
    if len(array) < MIN_CLUSTERS:
        return SignFlip(None, reason=f"fewer than {MIN_CLUSTERS} scripts")
    # The original signs do not matter because both signs are equally probable.
    sizes = np.sort(np.abs(array))
    moved = sizes[sizes > 0]
    if not len(moved):
        return SignFlip(1.0)
    reach = abs(math.fsum(array)) - _ROUNDING * moved.sum()
    if len(moved) <= EXACT_SCRIPTS:
        sums = moved[:1]
        for value in moved[1:]:
            sums = np.concatenate((sums + value, sums - value))
        return SignFlip(float(np.mean(np.abs(sums) >= reach)), 2 * len(sums), exact=True, informative=True)
    signs = _signs(len(sizes), flips, seed)
    rows = max(1, _BLOCK // len(sizes))
    beyond = sum(
        int((np.abs(signs[at : at + rows].astype(np.float64) @ sizes) >= reach).sum())
        for at in range(0, flips, rows)
    )
    return SignFlip((beyond + 1) / (flips + 1), flips + 1, informative=True)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's correction to p-values, which limits the probability of any false positive.

    The i-th smallest of m becomes ``max over j ≤ i of min(1, (m − j + 1) p_j)`` (Holm, 1979), which is valid
    for any dependence between the tests. Tests that were not made (None) do not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 0.0
    for rank, (p, place) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - rank) * p))
        adjusted[place] = least
    return adjusted


def standardised_mean(differences: ArrayLike) -> Estimate:
    """Return Cohen's d_z of paired differences, shape (scripts,): mean divided by standard deviation.

    It is a unitless measure of how consistent a difference is over scripts. The interval contains the values
    that the non-central t distribution does not exclude (Steiger and Fouladi, 1997), and is exact for normal
    differences. With few scripts, a bootstrap interval would have lower coverage (see
    ``benchmarks/statistics_validity.py``).

    Raises:
        ValueError: A difference is not finite.
    """
    array = np.sort(finite(differences))
    count = len(array)
    if not count:
        return Estimate(None, 0, 0, reason="no values")
    spread = float(_spread(array, np.ones((1, count)))[0])
    if spread == 0:
        return Estimate(None, count, count, reason="undefined for these values")
    if count < MIN_CLUSTERS:
        return Estimate(None, count, count, reason=f"fewer than {MIN_CLUSTERS} scripts")
    value = float(array.mean()) / spread
    tail = ALPHA / 2
    low, high = (_effect_at(value, count, share) for share in (1 - tail, tail))
    return Estimate(value, count, count, Interval(low, high))


def _effect_at(value: float, count: int, share: float) -> float:
    """Return the true d_z for which a sample's d_z is below `value` with probability `share`."""
    from scipy.optimize import brentq

    root = math.sqrt(count)
    reach = 10 * math.sqrt((1 + value * value / 2) / count)

    def excess(effect: float) -> float:
        return noncentral_below(value * root, count - 1, effect * root) - share

    return float(brentq(excess, value - reach, value + reach))


def noncentral_below(bound: float, freedom: int, centre: float) -> float:
    """Return ``P(T ≤ bound)`` for T with a non-central t distribution.

    >>> round(noncentral_below(2.0, 9, 1.0), 4)
    0.8041
    """
    from scipy.special import nctdtr

    found = float(nctdtr(freedom, centre, bound))
    # scipy returns a non-finite value if the smaller tail is below 1e-13.
    return found if math.isfinite(found) else float(bound > centre)


def standard_deviation(values: ArrayLike) -> Estimate:
    """Return the standard deviation of values, shape (scripts,), with its bootstrap interval.

    Raises:
        ValueError: A value is not finite.
    """
    array = np.sort(finite(values))
    return estimate_statistic(lambda drawn: _spread(array, drawn), range(len(array)))


def _spread(array: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation of each resample, shape (resamples,); NaN for fewer than two values.

    Equal values give exactly 0. `drawn` is each value's number of draws, shape (resamples, n).
    """
    count = drawn.sum(axis=1)
    centred = array - array.mean()  # improves the precision of the squares
    moment = drawn @ centred / count
    variance = (drawn @ centred**2 / count - moment**2) * count / np.maximum(count - 1, 1)
    spread = np.sqrt(np.maximum(variance, 0))
    spread = np.where(spread <= _ROUNDING * np.abs(array).max(), 0.0, spread)
    return np.asarray(np.where(count < 2, np.nan, spread), np.float64)


@lru_cache(maxsize=2)
def _signs(scripts: int, flips: int, seed: int) -> NDArray[np.int8]:
    """Return random sign assignments, shape (flips, scripts); the metrics of a comparison share them."""
    bits = np.random.default_rng([seed, 1]).integers(0, 2, size=(flips, scripts), dtype=np.int8)
    return np.asarray(2 * bits - 1, np.int8)
