"""Summarise the latencies of a run over its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from live_eval.analysis.statistics.distribution import Distribution, distribution
from live_eval.analysis.statistics.intervals import interval_json, quantile, rounded
from live_eval.analysis.summary.observations import Observation, latency
from live_eval.judging import TURN_FAILED
from live_eval.timing import AUDIBLE_DBFS, Latencies

__all__ = [
    "LATENCIES",
    "LATENCY_DEFINITIONS",
    "LATENCY_TITLES",
    "Lag",
    "LatencySummary",
    "has_uncertain_start",
    "is_certain_only",
    "lag_of",
    "percentiles_json",
    "summarise_latency",
    "summarise_values",
]

LATENCY_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "connect": "connect",
        "endpointing": "endpointing",
        "first_byte": "first byte",
        "voice_to_voice": "voice to voice",
        "lead_silence": "lead silence",
        "transcript": "transcript",
        "barge_in_stop": "barge-in stop",
    }
)
"""The latencies of a turn, in the order of docs/reference/latencies.md, with their titles."""
LATENCIES = tuple(LATENCY_TITLES)
LATENCY_DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "connect": "from dialling to the endpoint's session being ready",
        "endpointing": "from the end of speech to the endpoint's report that speech stopped, or, with manual "
        "turns, to its acceptance of the commit; the two are never pooled",
        "first_byte": "from the end of speech to the arrival of the first reply audio",
        "voice_to_voice": "from the end of speech to the first audible sample of the reply, as heard by a "
        f"listener without a jitter buffer: the first 10 ms window above {AUDIBLE_DBFS:.0f} dBFS that lasts "
        "30 ms",
        "lead_silence": "from the first byte to the first audible sample",
        "transcript": "from the end of speech to the arrival of the first reply text",
        "barge_in_stop": "from the moment the user begins to speak over the reply to its last audible sample",
    }
)
"""The definitions of the latencies, for the glossary and for the columns of exports."""

_NOT_FROM_VOICE_END = frozenset({"connect", "lead_silence", "barge_in_stop", "start_delay"})
# Latencies from both possible ends of speech, for turns with a vocal sound.
_ALSO_UNCERTAIN = frozenset({"voice_to_voice_from_last_word", "voice_to_voice_from_last_sound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """One latency over the captured turns of a run, in milliseconds; ``connect`` also counts failed turns.

    Args:
        measured: Values of turns with a certain end of speech, and the number of turns without this latency,
            by reason.
        without_flagged: The same, excluding turns whose lag exceeds the bound, without intervals.
        uncertain: Values of turns with an uncertain end of speech; empty for latencies that do not begin at
            the end of speech.
    """

    name: str
    measured: Distribution
    without_flagged: Distribution
    uncertain: Distribution

    @property
    def n(self) -> int:
        """The number of turns that the percentiles cover."""
        return self.measured.n

    def as_json(self) -> dict[str, Any]:
        """Return the latency as printed by ``show --json``."""
        p50, p95, p99 = (self.measured[name] for name in ("p50", "p95", "p99"))
        return {
            "n": self.n,
            "p50": rounded(p50.value, 3),
            "p95": rounded(p95.value, 3),
            "p99": rounded(p99.value, 3),
            "p50_interval": interval_json(p50.interval, 3),
            "p95_interval": interval_json(p95.interval, 3),
            "p50_reason": p50.reason or None,
            "p95_reason": p95.reason or None,
            "p99_reason": (p99.reason or None) if p99.value is None else None,
            "without_flagged": percentiles_json(self.without_flagged),
            "uncertain": percentiles_json(self.uncertain),
            "n_missing": self.measured.n_missing,
            "missing": dict(self.measured.missing),
        }


@dataclass(frozen=True, slots=True)
class Lag:
    """live-eval's own lateness over captured turns, in milliseconds: the error bar of latencies.

    The percentiles are None without turns; `flagged` is the number of turns beyond the bound.
    """

    p50: float | None
    p99: float | None
    flagged: int

    def percentiles_json(self) -> dict[str, float | None]:
        """Return the percentiles as printed with ``--json``."""
        return {"p50": rounded(self.p50, 3), "p99": rounded(self.p99, 3)}


def lag_of(captured: Iterable[Latencies]) -> Lag:
    """Summarise the lag of captured turns."""
    timings = list(captured)
    lags = [timing.lag_ns / 1e6 for timing in timings]
    return Lag(quantile(lags, 0.5), quantile(lags, 0.99), sum(timing.flagged for timing in timings))


def percentiles_json(values: Distribution) -> dict[str, Any]:
    """Return percentiles as printed with ``--json``."""
    return {
        "n": values.n,
        "p50": rounded(values["p50"].value, 3),
        "p95": rounded(values["p95"].value, 3),
        "p95_reason": values["p95"].reason or None,
    }


def is_certain_only(name: str) -> bool:
    """Return whether a latency's summaries exclude turns with an uncertain end of speech."""
    return name not in _NOT_FROM_VOICE_END | _ALSO_UNCERTAIN


def has_uncertain_start(timing: Latencies, name: str) -> bool:
    """Return whether summaries exclude a turn's latency because its end of speech is uncertain."""
    return timing.uncertain and is_certain_only(name)


def summarise_latency(name: str, turns: Sequence[Observation]) -> LatencySummary:
    """Summarise one latency over the turns of a run."""
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
    return summarise_values(name, certain, dict(missing.most_common()), uncertain)


def summarise_values(
    name: str,
    measured: Sequence[tuple[float, Observation]],
    missing: Mapping[str, int],
    uncertain: Sequence[float] = (),
) -> LatencySummary:
    """Summarise a latency's values in milliseconds, each given with its turn, and missing ones by reason."""
    return LatencySummary(
        name=name,
        measured=distribution(
            [value for value, _ in measured],
            [turn.script_id for _, turn in measured],
            statistics=("p50", "p95", "p99"),
            missing=missing,
        ),
        without_flagged=distribution([value for value, turn in measured if not turn.timing.flagged]),
        uncertain=distribution(uncertain),
    )
