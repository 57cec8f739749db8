"""Compute audit metrics: repeat consistency, order effect, sensitivity to degradations. Pure."""

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
    "Degraded",
    "Repeated",
    "Visibility",
    "consistency",
    "degradation_effect",
    "order_effect",
]

_Values = NDArray[np.float64]

# Scores this close count as equal, since the conformance suite (`live_eval.testing.judges.check_judge`)
# allows this difference between batches.
_SAME = 1e-4


@dataclass(frozen=True, slots=True)
class Repeated:
    """At least two scores of the same turn or pair, from one judge output."""

    turn_id: str
    script_id: str
    values: tuple[float, ...]

    @property
    def range(self) -> float:
        """The largest difference between two scores."""
        return max(self.values) - min(self.values)


def consistency(rows: Sequence[Repeated], *, seed: int = 0) -> dict[str, Any]:
    """Measure how consistent one judge output is over repeats, as printed by ``live-eval audit --json``.

    Returns:
        ``n``, the number of turns with at least two scores; ``identical``, the share of turns with equal
        scores (within 0.0001); ``deviation``, the mean absolute deviation from the turn's mean;
        ``sd_within``, the pooled standard deviation within turns; ``sd_between``, the standard deviation of
        the turns' true means (one-way random effects); ``icc``, the share of the variance that is between
        turns, ICC(1): 1 if repeats are identical, 0 if turns differ no more than repeats do (Shrout and
        Fleiss, Psychological Bulletin 86:2, 1979); and ``worst``, the turn with the ``largest_difference``.
    """
    if not rows:
        missing = dict.fromkeys(("identical", "deviation", "sd_within", "sd_between"))
        unknown = Estimate(None, 0, 0, reason="no turn was scored twice").as_json(scripts=True)
        return {"n": 0, **missing, "icc": unknown, "largest_difference": None, "worst": None}
    rows = sorted(rows, key=lambda row: (row.script_id, row.values))  # sums round equally for any input order
    counts = np.asarray([len(row.values) for row in rows], np.float64)
    means = np.asarray([np.mean(row.values) for row in rows])
    spreads = [np.subtract(row.values, mean) for row, mean in zip(rows, means, strict=True)]
    squares = np.asarray([np.square(spread).sum() for spread in spreads])
    centred = means - np.mean([value for row in rows for value in row.values])

    def variances(drawn: _Values) -> tuple[_Values, _Values, _Values]:
        """Return the variance within turns, the variance between turns, and the ICC of each resample."""
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
    icc = estimate_statistic(lambda drawn: variances(drawn)[2], [row.script_id for row in rows], seed=seed)
    worst = max(rows, key=lambda row: row.range)
    return {
        "n": len(rows),
        "identical": sum(row.range <= _SAME for row in rows) / len(rows),
        "deviation": float(np.mean([np.abs(spread).mean() for spread in spreads])),
        "sd_within": _root(within[0]),
        "sd_between": _root(between[0]),
        "icc": icc.as_json(scripts=True),
        "largest_difference": worst.range,
        "worst": {"turn_id": worst.turn_id, "values": list(worst.values)} if worst.range > 0 else None,
    }


def _root(variance: np.float64) -> float | None:
    return math.sqrt(variance) if math.isfinite(variance) else None


@dataclass(frozen=True, slots=True)
class BothOrders:
    """A judge's verdicts on a pair in both orders.

    `forward` is 1 if the first reply is better, −1 if the second is, 0 for a tie; `backward` is the same with
    the replies swapped: ``−forward`` for a judge that ignores the order.
    """

    turn_id: str
    script_id: str
    forward: float
    backward: float


def order_effect(rows: Sequence[BothOrders], *, seed: int = 0) -> dict[str, Any]:
    """Measure whether a pairwise judge prefers a position, regardless of the replies.

    Returns:
        The values printed by ``live-eval audit --json``, for ``n`` pairs: ``flipped``, the share whose
        verdict changes when the replies are swapped, including from or to a tie; ``position``, the mean of
        both verdicts, from −1 (always the second) to 1 (always the first), 0 for a judge that ignores the
        order; ``preference``, the mean of ``(forward − backward) / 2``, which removes the order effect; and
        the share of verdicts that are ``ties``.
    """
    scripts = [row.script_id for row in rows]
    verdicts = [verdict for row in rows for verdict in (row.forward, row.backward)]
    flipped = [float(row.forward != -row.backward) for row in rows]
    position = [(row.forward + row.backward) / 2 for row in rows]
    preference = [(row.forward - row.backward) / 2 for row in rows]
    return {
        "n": len(rows),
        "flipped": estimate_share(flipped, scripts, whole=1.0, seed=seed).as_json(scripts=True),
        "position": estimate_mean(position, scripts, seed=seed).as_json(scripts=True),
        "preference": estimate_mean(preference, scripts, seed=seed).as_json(scripts=True),
        "ties": sum(verdict == 0 for verdict in verdicts) / len(verdicts) if verdicts else None,
    }


class Visibility(StrEnum):
    """A judge's response to a degradation."""

    SEES = "sees"
    """The interval of the mean difference is on the worse side of 0 (or on either side, if undirected)."""
    BLIND = "does not see"
    """The interval contains 0."""
    PREFERS = "prefers"
    """The interval is on the better side of 0: the judge mistakes the degradation for an improvement."""
    TOO_FEW = "too few to say"
    """There are too few scripts for an interval."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """A judge output for the clean turn (or its control) and for the degraded turn; higher is better."""

    script_id: str
    before: float
    after: float


def degradation_effect(rows: Sequence[Degraded], *, directed: bool = True, seed: int = 0) -> dict[str, Any]:
    """Measure whether a judge detects a degradation.

    For an undirected output, any change beyond chance counts.

    Returns:
        The values printed by ``live-eval audit --json``, for ``n`` turns: the mean ``difference``, degraded
        minus clean, in the output's unit, where negative is worse regardless of the output's direction; the
        share of turns rated ``worse``, None without a direction or without turns; and the ``verdict`` (see
        `Visibility`).
    """
    before, after = [row.before for row in rows], [row.after for row in rows]
    difference = paired_difference(before, after, [row.script_id for row in rows], seed=seed)
    found = difference.interval
    if found is None and difference.value is not None and difference.clusters >= MIN_CLUSTERS:
        found = Interval(difference.value, difference.value)  # the difference is the same for all turns
    if found is None:
        verdict = Visibility.TOO_FEW
    elif found.low <= 0 <= found.high:
        verdict = Visibility.BLIND
    else:
        verdict = Visibility.PREFERS if directed and found.low > 0 else Visibility.SEES
    worse = float(np.mean(np.less(after, before))) if directed and rows else None
    return {
        "n": difference.n,
        "difference": difference.as_json(scripts=True),
        "worse": worse,
        "verdict": verdict.value,
    }
