"""Compute the latencies of a campaign condition: percentiles with intervals, and the tail.

A latency is measured from the end of the user's speech (docs/reference/latencies.md) or, with
``_from_intended``, from the turn's due time. The two differ under load. A turn that begins late because an
earlier turn stalled has already waited, but a load generator that starts its clock on sending omits this
wait: coordinated omission (Gil Tene, "How NOT to Measure Latency", 2013; wrk2,
https://github.com/giltene/wrk2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from live_eval.analysis.statistics.distribution import PERCENTILES, Distribution, distribution
from live_eval.analysis.statistics.intervals import MIN_CLUSTERS, SCRIPTS, interval_json, rounded
from live_eval.analysis.summary.latencies import has_uncertain_start, percentiles_json
from live_eval.analysis.summary.observations import latency
from live_eval.errors import FAILURE_CAUSES, FailureCause, FailureKind
from live_eval.judging import TURN_FAILED
from live_eval.recording import TurnRecord
from live_eval.timing import Latency, TurnTrace

__all__ = [
    "METRICS",
    "OUR_FAILURE",
    "OUR_FAILURES",
    "TURNS",
    "CampaignLatency",
    "ResamplingUnits",
    "campaign_latency",
    "intended_delay",
    "latency_of",
    "latency_values",
    "resampling_units",
    "tail",
    "unanswered_turns",
]

OUR_FAILURES = frozenset(kind for kind, cause in FAILURE_CAUSES.items() if cause is FailureCause.HARNESS)
"""Failures of live-eval itself, which are unrelated to the endpoint."""
OUR_FAILURE = "live-eval itself failed"
"""The reason given for a missing latency after such a failure."""

TURNS = "turns"
"""The resampling unit if there are too few scripts."""

_TIMED = ("connect", "endpointing", "first_byte", "voice_to_voice", "lead_silence", "transcript")
_FROM_INTENDED = {"first_byte_from_intended": "first_byte", "voice_to_voice_from_intended": "voice_to_voice"}
METRICS = (*_TIMED, "complete", "start_delay", *_FROM_INTENDED)
"""The latencies of a campaign."""

_TICKS_PER_HALVING = 5


def latency_values(name: str, turns: Sequence[TurnRecord]) -> dict[str, float]:
    """Return a latency of `METRICS` in ms for each turn that its percentiles include.

    These are the captured turns with this latency; if the latency begins at the end of speech, only those
    with a certain end of speech. ``connect`` includes turns that failed after connecting.
    """
    return {
        turn.turn_id: ns / 1e6
        for turn in turns
        if (ns := _counted(turn, name).ns) is not None and not has_uncertain_start(turn.timing, name)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignLatency:
    """A latency of `METRICS` over a condition's turns, in milliseconds.

    Unlike a run's `LatencySummary`, it includes latencies from the intended start, can rank unanswered turns
    after all values, and falls back to intervals over turns if there are too few scripts. The `Observation`s
    of a run's summary do not contain the timestamps for this.

    Args:
        measured: Values of `latency_values`, and the number of turns without this latency by reason.
        without_flagged: The same, excluding turns whose lag exceeds the bound, without intervals.
        uncertain: Number of turns excluded because the end of the user's speech is uncertain.
        unanswered: Number of missing latencies not caused by live-eval itself.
    """

    measured: Distribution
    without_flagged: Distribution
    uncertain: int
    unanswered: int

    def with_unanswered(self, statistic: str) -> float | None:
        """Return a percentile with unanswered turns ranked after all values.

        The result is None if the percentile is missing or falls on an unanswered turn.
        """
        return self.measured.with_lost(statistic, self.unanswered)

    def as_json(self) -> dict[str, Any]:
        """Return the latency as printed by ``live-eval latency --json``."""
        estimates = {f"{name}_ms": estimate for name, estimate in self.measured.estimates.items()}
        return {
            "n": self.measured.n,
            **{key: rounded(each.value, 3) for key, each in estimates.items()},
            "intervals": {
                key: interval_json(each.interval, 3) for key, each in estimates.items() if key != "max_ms"
            },
            "reason": {key: each.reason for key, each in estimates.items() if each.reason},
            "resampled": self.measured.drawn_as,
            "without_flagged": percentiles_json(self.without_flagged),
            "uncertain": self.uncertain,
            "missing": dict(self.measured.missing),
            "unanswered": self.unanswered,
            "with_unanswered": {f"{name}_ms": rounded(self.with_unanswered(name), 3) for name in PERCENTILES},
            "tail": tail(self.measured.values),
        }


def campaign_latency(name: str, turns: Sequence[TurnRecord]) -> CampaignLatency:
    """Return a latency of `METRICS` over a condition's turns."""
    by_turn = latency_values(name, turns)
    measured = [turn for turn in turns if turn.turn_id in by_turn]
    missing = Counter(found.reason for turn in turns if (found := _counted(turn, name)).ns is None)
    units = resampling_units(measured)
    return CampaignLatency(
        measured=distribution(
            list(by_turn.values()),
            units.of_turns,
            statistics=("mean", *PERCENTILES, "max"),
            drawn_as=units.drawn_as,
            missing=dict(missing.most_common()),
        ),
        without_flagged=distribution([by_turn[turn.turn_id] for turn in measured if not turn.timing.flagged]),
        uncertain=len(turns) - len(measured) - missing.total(),
        unanswered=unanswered_turns(name, missing),
    )


def unanswered_turns(name: str, missing: Mapping[str, int]) -> int:
    """Return the number of missing latencies not caused by live-eval itself, from the counts by reason."""
    if name == "connect":  # only the first turn of a session connects
        return missing.get(TURN_FAILED, 0)
    return sum(count for reason, count in missing.items() if reason != OUR_FAILURE)


def _counted(turn: TurnRecord, name: str) -> Latency:
    """Return a turn's latency for statistics; a failed turn has only the time to connect."""
    if turn.failure is None:
        return latency_of(turn, name)
    kind = turn.failure.kind
    if kind in OUR_FAILURES:
        return Latency(None, OUR_FAILURE)
    if name == "connect":
        if kind is FailureKind.DIALOGUE_ENDED:
            return Latency(None, "an earlier turn ended the session")
        found = latency_of(turn, name)
        if found.ns is not None or turn.trace.t0_ns is not None:  # an earlier turn may have connected
            return found
    return Latency(None, TURN_FAILED)


def latency_of(turn: TurnRecord, name: str) -> Latency:
    """Return a turn's latency of `METRICS`, or the reason why it is missing.

    ``complete`` is measured from the end of the user's speech until the endpoint reports the end of its
    response; ``start_delay`` from the turn's due time until the start of dialling.
    """
    if name == "complete":
        return _complete(turn)
    delay = intended_delay(turn.trace)
    if name == "start_delay":
        return delay
    if name not in _FROM_INTENDED:
        return latency(turn.timing, name)
    since_voice_end = latency(turn.timing, _FROM_INTENDED[name])
    if delay.ns is None or since_voice_end.ns is None:
        return Latency(None, delay.reason or since_voice_end.reason)
    return Latency(delay.ns + since_voice_end.ns)


def _complete(turn: TurnRecord) -> Latency:
    voice_end_ns, headline = turn.trace.voice_end_ns, turn.headline
    if voice_end_ns is None:
        return Latency(None, "the end of the user's speech is not known")
    if headline is None or headline.done_ns is None:
        return Latency(None, "no response" if headline is None else "the response did not end")
    return Latency(headline.done_ns - voice_end_ns)


def intended_delay(trace: TurnTrace) -> Latency:
    """Return the delay from a turn's intended start to the start of dialling."""
    if trace.intended_ns is None:
        return Latency(None, "no intended start")
    return Latency(trace.dial_ns - trace.intended_ns)


@dataclass(frozen=True, slots=True)
class ResamplingUnits:
    """The units that are resampled for intervals over turns.

    `of_turns` contains the unit of each turn; `drawn_as` is ``scripts`` or ``turns``.
    """

    of_turns: Sequence[str]
    drawn_as: str


def resampling_units(turns: Sequence[TurnRecord]) -> ResamplingUnits:
    """Return each turn's resampling unit: its script, or the turn itself if there are too few scripts.

    With fewer than eight scripts, an interval over scripts is not meaningful. An interval over turns does not
    generalise to other recordings.
    """
    scripts = [turn.case.script_id for turn in turns]
    if len(set(scripts)) >= MIN_CLUSTERS or not turns:
        return ResamplingUnits(scripts, SCRIPTS)
    return ResamplingUnits([turn.turn_id for turn in turns], TURNS)


def tail(values: Sequence[float]) -> list[list[float]]:
    """Return the distribution at increasingly fine percentiles, as ``[percentile, value]`` pairs.

    The percentiles follow HdrHistogram's iterator, with five ticks for each halving of the distance to 100
    (https://github.com/HdrHistogram/HdrHistogram, ``percentiles(5)``): 0, 10, … 50, 55, … 75, 77.5, …, and
    100. Each value is the smallest one that is at least as large as this percentage of the values.
    Percentiles with less than one value beyond them are omitted, except 100.

    >>> tail([4.0, 1.0, 3.0, 2.0])[-3:]
    [[70.0, 3.0], [75.0, 3.0], [100.0, 4.0]]
    """
    if not len(values):
        return []
    ascending = np.sort(np.asarray(values, np.float64))
    percentiles: list[float] = []
    beyond, step = 100.0, 100 / (2 * _TICKS_PER_HALVING)
    while beyond * len(ascending) >= 100:
        percentiles += [100 - beyond + tick * step for tick in range(_TICKS_PER_HALVING)]
        beyond, step = beyond / 2, step / 2
    kept = [percentile for percentile in percentiles if (100 - percentile) * len(ascending) >= 100]
    ranks = [max(1, int(np.ceil(round(percentile * len(ascending) / 100, 9)))) for percentile in kept]
    pairs = zip((*kept, 100.0), (*ranks, len(ascending)), strict=True)
    return [[round(percentile, 6), round(float(ascending[rank - 1]), 3)] for percentile, rank in pairs]
