"""Summarise measured values: mean and percentiles with intervals, and the number of missing values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from live_eval.analysis.statistics.intervals import (
    SCRIPTS,
    Estimate,
    estimate_mean,
    estimate_quantile,
    quantile,
    too_few_for,
)

__all__ = ["PERCENTILES", "Distribution", "distribution"]

PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""The percentiles that can be requested, as shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Statistics of measured values.

    Args:
        values: Measured values.
        estimates: The requested statistics by name: ``mean``, ``max`` and names of `PERCENTILES`.
        drawn_as: Resampling unit of the intervals.
        missing: Number of missing (censored) values, by reason.
    """

    values: tuple[float, ...]
    estimates: Mapping[str, Estimate]
    drawn_as: str = SCRIPTS
    missing: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, statistic: str) -> Estimate:
        """Return a requested statistic; for too few values, its value is None, with a reason."""
        return self.estimates[statistic]

    @property
    def n(self) -> int:
        """The number of measured values."""
        return len(self.values)

    @property
    def n_missing(self) -> int:
        """The number of missing values."""
        return sum(self.missing.values())

    def with_lost(self, statistic: str, lost: int) -> float | None:
        """Return a linearly interpolated percentile, with lost values ranked after all measured values.

        The result is None for the mean, for a missing statistic, and for a percentile that falls on a lost
        value.

        >>> distribution([1.0, 2.0, 3.0, 4.0]).with_lost("p50", 1)
        3.0
        """
        share = 1.0 if statistic == "max" else PERCENTILES.get(statistic)
        if share is None or self[statistic].value is None:
            return None
        highest = math.ceil(round(share * (self.n + lost - 1), 9))
        if highest >= self.n:
            return None
        # Values beyond this rank do not affect the result.
        return quantile([*self.values, *[max(self.values)] * lost], share)


def distribution(
    values: Sequence[float],
    units: Sequence[Hashable] | None = None,
    *,
    statistics: Sequence[str] = ("p50", "p95"),
    drawn_as: str = SCRIPTS,
    missing: Mapping[str, int] | None = None,
) -> Distribution:
    """Return the distribution of values.

    Args:
        values: Measured values, shape (n,).
        units: Resampling unit of each value; None for no intervals.
        statistics: ``mean``, ``max`` (no interval) and names of `PERCENTILES`.
        drawn_as: Name of the units, for reasons.
        missing: Number of missing values, by reason.

    Raises:
        ValueError: A value is not finite.
    """

    def estimate(statistic: str) -> Estimate:
        if statistic == "max":
            return Estimate(max(values, default=None), len(values), 0)
        if units is not None and statistic == "mean":
            return estimate_mean(values, units, drawn_as=drawn_as)
        share = PERCENTILES[statistic]
        if units is not None:
            return estimate_quantile(values, units, share, drawn_as=drawn_as)
        reason = too_few_for(share, len(values))
        return Estimate(None if reason else quantile(values, share), len(values), 0, reason=reason)

    return Distribution(
        values=tuple(values),
        estimates={statistic: estimate(statistic) for statistic in statistics},
        drawn_as=drawn_as,
        missing=dict(missing or {}),
    )
