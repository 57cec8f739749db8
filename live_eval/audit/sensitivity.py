"""Whether a judge sees a known degradation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from live_eval.audit.figures import estimate_json
from live_eval.statistics import Estimate, paired_difference

__all__ = ["Degraded", "Sight", "Verdict", "sight"]


class Verdict(StrEnum):
    """What a judge makes of a degradation."""

    SEES = "sees"
    """The interval of the mean difference lies on the worse side of 0."""
    BLIND = "does not see"
    """The interval holds 0."""
    PREFERS = "prefers"
    """The interval lies on the better side of 0: the judge takes the degradation for an improvement."""
    TOO_FEW = "too few to say"
    """There is no interval."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """One number of a judge for a turn as it is and degraded, both turned so that higher is better.

    Args:
        script_id: The turn's script.
        before: For the turn as it is (or for its control).
        after: For the degraded turn.
    """

    script_id: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How one number of a judge answers to a degradation.

    Args:
        difference: Mean of degraded less clean over the turns, in the number's unit; negative is worse,
            whatever the number's direction.
        worse: Share of the turns that it rates worse.
        verdict: What that says.
    """

    difference: Estimate
    worse: float | None
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Return it as ``live-eval audit --json`` prints it."""
        return {
            "n": self.difference.n,
            "difference": estimate_json(self.difference),
            "worse": self.worse,
            "verdict": self.verdict.value,
        }


def sight(rows: Sequence[Degraded], *, seed: int = 0) -> Sight:
    """Return whether a judge sees a degradation.

    Args:
        rows: The turns that it scored both ways.
        seed: Seed of the resampling.
    """
    before, after = [row.before for row in rows], [row.after for row in rows]
    difference = paired_difference(before, after, [row.script_id for row in rows], seed=seed)
    found = difference.interval
    if found is None:
        verdict = Verdict.TOO_FEW
    elif found.high < 0:
        verdict = Verdict.SEES
    else:
        verdict = Verdict.PREFERS if found.low > 0 else Verdict.BLIND
    worse = float(np.mean(np.less(after, before))) if rows else None
    return Sight(difference=difference, worse=worse, verdict=verdict)
