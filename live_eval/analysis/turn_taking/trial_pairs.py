"""Compare the trials of two runs, paired by trial; intervals resample as those of `trial_metrics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.intervals import Estimate, paired_difference, quantile, rounded
from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.trial import SENTINEL, TrialResult
from live_eval.analysis.turn_taking.trial_metrics import drawn_as, durations_ms

__all__ = ["ConditionDifference", "DurationDifference", "differences"]

_MS = 3
"""Decimals of a duration in ms."""


@dataclass(frozen=True, slots=True)
class DurationDifference:
    """The medians and mean difference of a duration in ms, over the trials with a value in both runs."""

    first_p50: float | None
    second_p50: float | None
    difference: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the difference as printed by ``live-eval duplex --json``."""
        return {
            "first_p50": rounded(self.first_p50, _MS),
            "second_p50": rounded(self.second_p50, _MS),
            "difference": self.difference.as_json(_MS),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionDifference:
    """The differences between two runs in one condition (second minus first).

    Args:
        pairs: Number of pairs of conclusive trials.
        outcomes: Number of these pairs, by the outcomes of both trials.
        passed: Difference of the pass rates, in percentage points.
    """

    probe: str
    condition: str
    pairs: int
    outcomes: Mapping[tuple[Outcome, Outcome], int]
    passed: Estimate
    durations: Mapping[str, DurationDifference]

    def as_json(self) -> dict[str, Any]:
        """Return the differences as printed by ``live-eval duplex --json``."""
        return {
            "probe": self.probe,
            "condition": self.condition,
            "pairs": self.pairs,
            "outcomes": {f"{one} → {other}": count for (one, other), count in self.outcomes.items()},
            "passed": self.passed.as_json(_MS),
            "durations": {name: each.as_json() for name, each in self.durations.items()},
        }


def differences(first: Sequence[TrialResult], second: Sequence[TrialResult]) -> list[ConditionDifference]:
    """Compare the trials of two runs (second minus first) in each condition.

    The last attempts at each trial are paired by name; void trials are excluded. Conditions are in the order
    of their first trial in `first`.
    """
    others = {trial.facts.trial_id: trial for trial in second}
    groups: dict[tuple[str, str], list[tuple[TrialResult, TrialResult]]] = {}
    for trial in first:
        other = others.get(trial.facts.trial_id)
        if trial.facts.probe != SENTINEL and other is not None:
            groups.setdefault((trial.facts.probe, trial.facts.condition), []).append((trial, other))
    return [_differences(*condition, pairs) for condition, pairs in groups.items()]


def _differences(
    probe: str, condition: str, pairs: Sequence[tuple[TrialResult, TrialResult]]
) -> ConditionDifference:
    judged = [pair for pair in pairs if None not in (pair[0].passed, pair[1].passed)]
    names = dict.fromkeys(name for one, _ in pairs for name in one.judgement.durations_ns)
    return ConditionDifference(
        probe=probe,
        condition=condition,
        pairs=len(judged),
        outcomes=dict(Counter((one.outcome, other.outcome) for one, other in judged).most_common()),
        passed=paired_difference(
            [100.0 * bool(one.passed) for one, _ in judged],
            [100.0 * bool(other.passed) for _, other in judged],
            [one.facts.unit for one, _ in judged],
            drawn_as=drawn_as(one for one, _ in judged),
        ),
        durations={name: _difference(pairs, name) for name in names},
    )


def _difference(pairs: Sequence[tuple[TrialResult, TrialResult]], name: str) -> DurationDifference:
    ones = durations_ms((one for one, _ in pairs), name)
    others = durations_ms((other for _, other in pairs), name)
    both = [trial_id for trial_id in ones if trial_id in others]
    first, second = [ones[each] for each in both], [others[each] for each in both]
    units = {one.facts.trial_id: one.facts.unit for one, _ in pairs}
    difference = paired_difference(
        first, second, [units[each] for each in both], drawn_as=drawn_as(one for one, _ in pairs)
    )
    return DurationDifference(quantile(first, 0.5), quantile(second, 0.5), difference)
