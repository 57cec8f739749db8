"""Metrics of an audit: repeat consistency, the effect of the order, sensitivity to degradations. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.statistics.intervals import (
    MIN_CLUSTERS,
    Estimate,
    Interval,
    estimate_mean,
    estimate_share,
    estimate_statistic,
    paired_difference,
)

__all__ = [
    "BothOrders",
    "Consistency",
    "Degraded",
    "OrderEffect",
    "Repeated",
    "Sight",
    "Visibility",
    "consistency",
    "order_effect",
    "sight",
]

_Figures = NDArray[np.float64]

# Scores this close count as the same: the conformance suite allows every judge that much between batches
# (`live_eval.testing.judges.check_judge`).
_SAME = 1e-4


@dataclass(frozen=True, slots=True)
class Repeated:
    """At least two scores of one turn or pair by one output of a judge."""

    turn_id: str
    script_id: str
    values: tuple[float, ...]

    @property
    def range(self) -> float:
        """The largest difference between two values."""
        return max(self.values) - min(self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """The spread of repeated scores.

    Args:
        n: Turns with at least two scores.
        identical: Share of them whose scores are the same up to 0.0001.
        deviation: Mean over the turns of the mean absolute deviation from the turn's mean.
        sd_within: Standard deviation of scores of the same turn, pooled over the turns.
        sd_between: Standard deviation of the turns' true means: the deviation between turns after subtracting
            that within them (one-way random effects).
        icc: Share of the variance that is between turns, ICC(1): 1 if a repeat changes nothing, 0 if turns
            differ no more than repeats do (Shrout and Fleiss, Psychological Bulletin 86:2, 1979).
        worst: The turn with the widest spread; None if no scores differ.
    """

    n: int
    identical: float | None
    deviation: float | None
    sd_within: float | None
    sd_between: float | None
    icc: Estimate
    worst: Repeated | None

    def as_json(self) -> dict[str, Any]:
        """Return it as ``live-eval audit --json`` prints it."""
        worst = self.worst
        return {
            "n": self.n,
            "identical": self.identical,
            "deviation": self.deviation,
            "sd_within": self.sd_within,
            "sd_between": self.sd_between,
            "icc": self.icc.as_json(scripts=True),
            "largest_difference": None if self.n == 0 else (worst.range if worst else 0.0),
            "worst": None if worst is None else {"turn_id": worst.turn_id, "values": list(worst.values)},
        }


def consistency(rows: Sequence[Repeated], *, seed: int = 0) -> Consistency:
    """Return the repeat consistency of one output of a judge."""
    if not rows:
        empty = Estimate(None, 0, 0, reason="no turn was scored twice")
        return Consistency(
            n=0, identical=None, deviation=None, sd_within=None, sd_between=None, icc=empty, worst=None
        )
    rows = sorted(rows, key=lambda row: (row.script_id, row.values))  # sums round alike in whatever order
    counts = np.asarray([len(row.values) for row in rows], np.float64)
    means = np.asarray([np.mean(row.values) for row in rows])
    spreads = [np.subtract(row.values, mean) for row, mean in zip(rows, means, strict=True)]
    squares = np.asarray([np.square(spread).sum() for spread in spreads])
    centred = means - np.mean([value for row in rows for value in row.values])

    def variances(drawn: _Figures) -> tuple[_Figures, _Figures, _Figures]:
        """Return the variance within turns, the variance between them and the ICC of each resample."""
        turns, scores = drawn.sum(axis=1), drawn @ counts
        grand = drawn @ (counts * centred) / scores
        between_squares = drawn @ (counts * centred**2) - scores * grand**2
        with np.errstate(divide="ignore", invalid="ignore"):
            within = drawn @ squares / (scores - turns)
            size = (scores - drawn @ counts**2 / scores) / (turns - 1)
            mean_between = np.maximum(0.0, between_squares) / (turns - 1)
            icc = (mean_between - within) / (mean_between + (size - 1) * within)
            between = np.maximum(0.0, mean_between - within) / size
        return within, between, np.where(np.isfinite(icc), icc, math.nan)

    within, between, _ = variances(np.ones((1, len(rows))))
    worst = max(rows, key=lambda row: row.range)
    return Consistency(
        n=len(rows),
        identical=sum(row.range <= _SAME for row in rows) / len(rows),
        deviation=float(np.mean([np.abs(spread).mean() for spread in spreads])),
        sd_within=_root(within[0]),
        sd_between=_root(between[0]),
        icc=estimate_statistic(lambda drawn: variances(drawn)[2], [row.script_id for row in rows], seed=seed),
        worst=worst if worst.range > 0 else None,
    )


def _root(variance: np.float64) -> float | None:
    return math.sqrt(variance) if math.isfinite(variance) else None


@dataclass(frozen=True, slots=True)
class BothOrders:
    """A judge's verdicts on a pair in both orders.

    `forward` is 1 if the reply shown first is better, −1 if the second is, 0 for a tie; `backward` is the
    same
    with the two swapped: ``−forward`` for a judge that ignores the order.
    """

    turn_id: str
    script_id: str
    forward: float
    backward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEffect:
    """Whether a pairwise judge prefers the first or the second reply, whatever they are.

    Args:
        flipped: Share of the pairs whose verdict changes when they are swapped, including from or to a tie.
        position: Mean of both verdicts over the pairs, from −1 (always the second) to 1 (always the first);
            0 for a judge that ignores the order.
        preference: Mean of ``(forward − backward) / 2``: how much better one side is, with the order effect
            removed.
        ties: Share of verdicts that are ties.
    """

    flipped: Estimate
    position: Estimate
    preference: Estimate
    ties: float | None

    def as_json(self) -> dict[str, Any]:
        """Return it as ``live-eval audit --json`` prints it."""
        return {
            "n": self.flipped.n,
            "flipped": self.flipped.as_json(scripts=True),
            "position": self.position.as_json(scripts=True),
            "preference": self.preference.as_json(scripts=True),
            "ties": self.ties,
        }


def order_effect(rows: Sequence[BothOrders], *, seed: int = 0) -> OrderEffect:
    """Return the effect of the order over pairs with a verdict in both orders."""
    scripts = [row.script_id for row in rows]
    verdicts = [verdict for row in rows for verdict in (row.forward, row.backward)]
    flipped = [float(row.forward != -row.backward) for row in rows]
    return OrderEffect(
        flipped=estimate_share(flipped, scripts, whole=1.0, seed=seed),
        position=estimate_mean([(row.forward + row.backward) / 2 for row in rows], scripts, seed=seed),
        preference=estimate_mean([(row.forward - row.backward) / 2 for row in rows], scripts, seed=seed),
        ties=sum(verdict == 0 for verdict in verdicts) / len(verdicts) if verdicts else None,
    )


class Visibility(StrEnum):
    """How a judge responds to a degradation."""

    SEES = "sees"
    """The interval of the mean difference is on the worse side of 0 (on either, without a direction)."""
    BLIND = "does not see"
    """The interval contains 0."""
    PREFERS = "prefers"
    """The interval is on the better side of 0: the judge takes the degradation for an improvement."""
    TOO_FEW = "too few to say"
    """There are too few scripts for an interval."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """One output of a judge for a turn (or its control) and its degraded form; higher is better."""

    script_id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How one output of a judge responds to a degradation.

    Args:
        difference: Mean of degraded minus clean over the turns, in the output's unit. Negative is worse,
            whatever the output's direction; without a direction the sign is kept.
        worse: Share of the turns rated worse; None without a direction or without turns.
        verdict: The conclusion.
    """

    difference: Estimate
    worse: float | None
    verdict: Visibility

    def as_json(self) -> dict[str, Any]:
        """Return it as ``live-eval audit --json`` prints it."""
        return {
            "n": self.difference.n,
            "difference": self.difference.as_json(scripts=True),
            "worse": self.worse,
            "verdict": self.verdict.value,
        }


def sight(rows: Sequence[Degraded], *, directed: bool = True, seed: int = 0) -> Sight:
    """Return whether a judge notices a degradation; without a direction, any change beyond chance counts."""
    before, after = [row.before for row in rows], [row.after for row in rows]
    difference = paired_difference(before, after, [row.script_id for row in rows], seed=seed)
    found = difference.interval
    if found is None and difference.value is not None and difference.clusters >= MIN_CLUSTERS:
        found = Interval(difference.value, difference.value)  # the same for all turns
    if found is None:
        verdict = Visibility.TOO_FEW
    elif found.low <= 0 <= found.high:
        verdict = Visibility.BLIND
    else:
        verdict = Visibility.PREFERS if directed and found.low > 0 else Visibility.SEES
    worse = float(np.mean(np.less(after, before))) if directed and rows else None
    return Sight(difference=difference, worse=worse, verdict=verdict)
