"""Measure drift in a campaign, using the same recordings at the start, middle and end.

The metrics separate the causes of drift: reply latencies reflect the endpoint, connection setup the network,
and lag live-eval itself. One provider's median over nine runs of the same cell ranged from 1,264 to 2,039 ms
(cekura-bench, https://github.com/cekura-ai/cekura-bench): without a drift check, such variation may be
mistaken for a difference between conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from live_eval.analysis.latency.campaign_latencies import TURNS, latency_of
from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_quantile,
    interval_json,
    paired_difference,
    rounded,
)
from live_eval.recording import TurnRecord

__all__ = ["DRIFT_METRICS", "CaseAnswers", "DriftCheck", "DriftMetric", "drift_check"]

DRIFT_METRICS = ("connect", "first_byte", "voice_to_voice", "lag")
"""One metric of the network, two of the endpoint, and one of live-eval itself."""


@dataclass(frozen=True, slots=True)
class DriftMetric:
    """The median of a metric in a drift check, and its mean difference from the first check, in ms.

    The difference is averaged over the turns measured in both checks; the first check has no difference.
    """

    median: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True)
class CaseAnswers:
    """The number of answered turns of a case, out of n; silence and noise should not be answered."""

    case: str
    n: int
    answered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck:
    """The metrics of one drift check, compared with the campaign's first check.

    `started_at` is ISO 8601 in UTC; empty if unknown.
    """

    name: str
    started_at: str = ""
    answers: tuple[CaseAnswers, ...]
    metrics: Mapping[str, DriftMetric]

    def as_json(self) -> dict[str, Any]:
        """Return the check as printed with ``--json``."""
        return {
            "name": self.name,
            "answers": [asdict(each) for each in self.answers],
            "metrics": {
                name: {
                    "n": each.median.n,
                    "p50_ms": rounded(each.median.value, 3),
                    "interval_ms": interval_json(each.median.interval, 3),
                    "reason": each.median.reason,
                    "difference_ms": rounded(each.difference.value, 3),
                    "difference_interval_ms": interval_json(each.difference.interval, 3),
                }
                for name, each in self.metrics.items()
            },
        }


def drift_check(
    name: str, turns: Sequence[TurnRecord], first: Sequence[TurnRecord], *, started_at: str = ""
) -> DriftCheck:
    """Compute the metrics of a drift check from its turns, compared with the turns of the first check.

    All checks use the same recordings, so intervals and differences are over turns, not over scripts.
    """
    metrics = {name: _metric(_values(turns, name), _values(first, name)) for name in DRIFT_METRICS}
    if turns is first:
        metrics = {name: replace(each, difference=Estimate(None, 0, 0)) for name, each in metrics.items()}
    return DriftCheck(name=name, started_at=started_at, answers=_answers(turns), metrics=metrics)


def _metric(now: Mapping[str, float], then: Mapping[str, float]) -> DriftMetric:
    both = [key for key in now if key in then]
    return DriftMetric(
        median=estimate_quantile(list(now.values()), list(now), 0.5, drawn_as=TURNS),
        difference=paired_difference(
            [then[key] for key in both], [now[key] for key in both], both, drawn_as=TURNS
        ),
    )


def _values(turns: Sequence[TurnRecord], name: str) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for turn in turns:
        if not turn.captured:
            continue
        ns = turn.timing.lag_ns if name == "lag" else latency_of(turn, name).ns
        if ns is not None:
            values[turn.turn_id] = ns / 1e6
    return values


def _answers(turns: Sequence[TurnRecord]) -> tuple[CaseAnswers, ...]:
    cases: dict[str, list[bool]] = {}
    for turn in turns:
        cases.setdefault(turn.case.case_id, []).append(turn.headline is not None)
    return tuple(CaseAnswers(case, len(answered), sum(answered)) for case, answered in cases.items())
