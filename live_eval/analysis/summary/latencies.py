"""The latencies of a run, summarised over its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_quantile,
    interval_json,
    quantile,
    rounded,
    too_few_for,
)
from live_eval.analysis.summary.observations import Observation, latency
from live_eval.judging import TURN_FAILED
from live_eval.timing import Latencies

__all__ = ["LATENCIES", "LatencySummary", "Percentiles", "has_uncertain_start", "summarise_latency"]

LATENCIES = (
    "connect",
    "endpointing",
    "first_byte",
    "voice_to_voice",
    "lead_silence",
    "transcript",
    "barge_in_stop",
)
"""The latencies of a turn, in the order of docs/timing.md."""

_NOT_FROM_VOICE_END = frozenset({"connect", "lead_silence", "barge_in_stop", "start_delay"})


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles in milliseconds; None for too few values."""

    n: int
    p50: float | None
    p95: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Return the percentiles of values."""
        p95 = None if too_few_for(0.95, len(values)) else quantile(values, 0.95)
        return cls(len(values), quantile(values, 0.5), p95)

    def as_json(self) -> dict[str, Any]:
        """Return the percentiles as printed by ``show --json``."""
        return {
            "n": self.n,
            "p50": rounded(self.p50, 3),
            "p95": rounded(self.p95, 3),
            "p95_reason": too_few_for(0.95, self.n) or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """One latency over the captured turns of a run, in milliseconds.

    Args:
        name: Name of the latency.
        values: Values of the measured turns with a certain end of speech.
        p50: Median of the values.
        p95: 95th percentile of the values.
        p99: 99th percentile of the values.
        without_flagged: Percentiles without turns whose lag exceeds the bound.
        uncertain: Percentiles of turns with an uncertain end of speech; empty for latencies that do not begin
            there.
        missing: Number of turns without this latency, by reason.
    """

    name: str
    values: tuple[float, ...]
    p50: Estimate
    p95: Estimate
    p99: Estimate
    without_flagged: Percentiles
    uncertain: Percentiles
    missing: Mapping[str, int]

    @property
    def n(self) -> int:
        """Number of turns behind the percentiles."""
        return len(self.values)

    def as_json(self) -> dict[str, Any]:
        """Return the latency as printed by ``show --json``."""
        return {
            "n": self.n,
            "p50": rounded(self.p50.value, 3),
            "p95": rounded(self.p95.value, 3),
            "p99": rounded(self.p99.value, 3),
            "p50_interval": interval_json(self.p50.interval, 3),
            "p95_interval": interval_json(self.p95.interval, 3),
            "p50_reason": self.p50.reason or None,
            "p95_reason": self.p95.reason or None,
            "p99_reason": (self.p99.reason or None) if self.p99.value is None else None,
            "without_flagged": self.without_flagged.as_json(),
            "uncertain": self.uncertain.as_json(),
            "n_missing": sum(self.missing.values()),
            "missing": dict(self.missing),
        }


def has_uncertain_start(timing: Latencies, name: str) -> bool:
    """Return whether a latency begins with an uncertain end of speech."""
    return timing.uncertain and name not in _NOT_FROM_VOICE_END


def summarise_latency(name: str, turns: Sequence[Observation]) -> LatencySummary:
    """Return one latency over the turns of a run."""
    certain: list[tuple[float, Observation]] = []
    uncertain: list[float] = []
    missing: Counter[str] = Counter()
    for turn in turns:
        value = turn.milliseconds(name)
        if value is None:
            missing[latency(turn.timing, name).reason if turn.captured else TURN_FAILED] += 1
        elif has_uncertain_start(turn.timing, name):
            uncertain.append(value)
        else:
            certain.append((value, turn))
    values = [value for value, _ in certain]
    scripts = [turn.script_id for _, turn in certain]
    return LatencySummary(
        name=name,
        values=tuple(values),
        p50=estimate_quantile(values, scripts, 0.5),
        p95=estimate_quantile(values, scripts, 0.95),
        p99=estimate_quantile(values, scripts, 0.99),
        without_flagged=Percentiles.of([value for value, turn in certain if not turn.timing.flagged]),
        uncertain=Percentiles.of(uncertain),
        missing=dict(missing.most_common()),
    )
