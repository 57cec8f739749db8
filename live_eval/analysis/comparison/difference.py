"""Compare one metric between two runs: the difference, its uncertainty, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.comparison.series import Series
from live_eval.analysis.statistics.intervals import Estimate, estimate_mean, interval_json, rounded
from live_eval.analysis.statistics.paired import (
    ALPHA,
    FLIPS,
    SignFlip,
    cluster_means,
    least_p,
    sign_flip,
    standardised_mean,
)
from live_eval.analysis.summary.observations import TurnKey

__all__ = ["Difference", "Verdict", "difference_of", "script_differences"]


class Verdict(StrEnum):
    """The verdict on a run compared with the first."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    NOT_SHOWN = "no difference shown"
    TOO_FEW = "too few to say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric in two runs, over the scripts with a value in both.

    Each script counts once: variants and repetitions with a value in both runs are averaged first.

    Args:
        title: Name for readers.
        kind: Metric type: ``turns``, ``latency`` or ``score``.
        higher_is_better: Better direction, or None.
        first: Mean of the first run over the paired scripts; None if there are no pairs.
        other: Mean of the other run.
        difference: Difference ``other − first`` with its interval; n is the number of turn pairs.
        test: Sign-flip test of the scripts' differences.
        p_holm: Holm-corrected p over all tests of a comparison, or None.
        effect: Cohen's d_z of the scripts' differences.
        cases: Number of cases among the pairs.
        turns: Number of common turns that the metric applies to, including turns without a value.
        without_first: Number of turns without a value in the first run only; likewise `without_other`.
        without_both: Number of turns without a value in both runs.
        failed_first: Number of failed turns in the first run; likewise `failed_other`.
    """

    name: str
    title: str
    kind: str
    unit: str
    higher_is_better: bool | None
    first: float | None
    other: float | None
    difference: Estimate
    test: SignFlip
    p_holm: float | None
    tests: int
    effect: Estimate
    cases: int
    turns: int
    without_first: int
    without_other: int
    without_both: int
    failed_first: int
    failed_other: int

    @property
    def verdict(self) -> Verdict:
        """The verdict on the other run.

        A difference is shown if the corrected p is below `ALPHA`, the interval excludes 0, and the value does
        not round to 0.
        """
        value = self.difference.value
        if value is None or self.p_holm is None:
            return Verdict.TOO_FEW
        if not self._is_significant or self.rounds_to_zero:
            return Verdict.TOO_FEW if self._out_of_reach else Verdict.NOT_SHOWN
        if self.higher_is_better is None:
            return Verdict.HIGHER if value > 0 else Verdict.LOWER
        return Verdict.BETTER if (value > 0) == self.higher_is_better else Verdict.WORSE

    @property
    def digits(self) -> int:
        """The number of decimals shown."""
        return 0 if self.kind == "latency" else 3

    @property
    def rounds_to_zero(self) -> bool:
        """Whether the difference is shown as 0: too small to matter, however certain it is."""
        return self.difference.value is not None and round(self.difference.value, self.digits) == 0

    @property
    def _is_significant(self) -> bool:
        """Whether the corrected p is below `ALPHA` and the interval excludes 0."""
        interval = self.difference.interval
        if self.p_holm is None or self.p_holm >= ALPHA:
            return False
        # If all scripts differ by the same amount, there is no interval and p alone decides.
        return interval is None or not interval.low <= 0 <= interval.high

    @property
    def is_close(self) -> bool:
        """Whether a difference is shown although the interval of d_z, which assumes normality, contains 0."""
        effect = self.effect.interval
        shown = self.verdict not in (Verdict.TOO_FEW, Verdict.NOT_SHOWN)
        return shown and effect is not None and effect.low <= 0 <= effect.high

    @property
    def _out_of_reach(self) -> bool:
        """Whether there are too few scripts to show any difference with this many tests."""
        return self.test.informative and self.tests * least_p(self.difference.clusters) >= ALPHA

    @property
    def in_words(self) -> str:
        """The verdict; with a reason if data are lacking or a significant difference is not shown."""
        if self.verdict is Verdict.NOT_SHOWN and self._is_significant:
            return f"{self.verdict.value}: significant, but the difference rounds to 0"
        if self.verdict is not Verdict.TOO_FEW:
            return self.verdict.value
        if self._out_of_reach and self.p_holm is not None:
            return (
                f"{self.verdict.value}: with {self.difference.clusters} scripts, p is at least "
                f"{least_p(self.difference.clusters):.2g}, too large for {self.tests} tests; compare fewer "
                "metrics or runs"
            )
        reason = self.difference.reason if self.difference.value is None else self.test.reason
        return f"{self.verdict.value}: {reason or self.difference.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the difference as printed by ``live-eval compare --json``; its keys are stable."""
        return {
            "title": self.title,
            "kind": self.kind,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "first": rounded(self.first),
            "other": rounded(self.other),
            "difference": rounded(self.difference.value),
            "interval": interval_json(self.difference.interval),
            "reason": self.difference.reason,
            "p": self.test.p,
            "p_holm": self.p_holm,
            "method": self.test.method,
            "effect_size": rounded(self.effect.value),
            "effect_interval": interval_json(self.effect.interval),
            "n": self.difference.n,
            "n_cases": self.cases,
            "n_scripts": self.difference.clusters,
            "n_turns": self.turns,
            "without": {"first": self.without_first, "other": self.without_other, "both": self.without_both},
            "failed": {"first": self.failed_first, "other": self.failed_other},
            "verdict": self.verdict.value,
            "in_words": self.in_words,
        }


def difference_of(
    first: Series,
    other: Series,
    scripts: Mapping[TurnKey, str],
    *,
    failed_first: Collection[TurnKey] = (),
    failed_other: Collection[TurnKey] = (),
    flips: int = FLIPS,
    seed: int = 0,
) -> Difference:
    """Return the difference of a metric between two runs, with an uncorrected p.

    `flips` is the number of random sign assignments (see `flips_for`); `seed` is used for all draws.
    """
    keys = [key for key in first.values if key in other.values]
    without = Counter((first.values[key] is None, other.values[key] is None) for key in keys)
    paired = _paired(first, other)
    of = [scripts[key] for key in paired]
    befores = cluster_means([before for before, _ in paired.values()], of)
    afters = cluster_means([after for _, after in paired.values()], of)
    differences = _differences(paired, scripts)
    test = sign_flip(differences, flips=flips, seed=seed)
    return Difference(
        name=first.name,
        title=first.title,
        kind=first.kind,
        unit=first.unit,
        higher_is_better=first.higher_is_better,
        first=float(befores.mean()) if paired else None,
        other=float(afters.mean()) if paired else None,
        difference=replace(estimate_mean(differences, range(len(differences)), seed=seed), n=len(paired)),
        test=test,
        p_holm=test.p,
        tests=1,
        effect=standardised_mean(differences),
        cases=len({case for case, _ in paired}),
        turns=len(keys),
        without_first=without[True, False],
        without_other=without[False, True],
        without_both=without[True, True],
        failed_first=sum(key in failed_first for key in keys),
        failed_other=sum(key in failed_other for key in keys),
    )


def script_differences(first: Series, other: Series, scripts: Mapping[TurnKey, str]) -> NDArray[np.float64]:
    """Return ``other − first`` averaged within each script that has a pair, shape (scripts,)."""
    return _differences(_paired(first, other), scripts)


def _paired(first: Series, other: Series) -> dict[TurnKey, tuple[float, float]]:
    return {
        key: (before, after)
        for key, before in first.values.items()
        if before is not None and (after := other.values.get(key)) is not None
    }


def _differences(
    paired: Mapping[TurnKey, tuple[float, float]], scripts: Mapping[TurnKey, str]
) -> NDArray[np.float64]:
    return cluster_means(
        [after - before for before, after in paired.values()], [scripts[key] for key in paired]
    )
