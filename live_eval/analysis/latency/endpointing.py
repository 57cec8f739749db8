"""Compute the endpointing cost: the latency added when the endpoint's own detector ends the turn.

The same recordings run with the endpoint's detector and with a manual commit after the last frame, paired by
case and repetition. In a manual turn, the end of the turn is known, so the difference is the cost of
detecting it. A recording may continue after the speech; the time from the frame with the end of speech to the
commit is therefore subtracted from the manual turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.latency.campaign_latencies import latency_values, resampling_units
from live_eval.analysis.statistics.intervals import (
    Estimate,
    interval_json,
    paired_difference,
    quantile,
    rounded,
)
from live_eval.recording import TurnRecord

__all__ = ["COSTED", "EndpointingCost", "LatencyCost", "PairedTurns", "endpointing_cost"]

COSTED = ("voice_to_voice", "first_byte", "endpointing")
"""The latencies whose cost is reported, the main latency first."""


@dataclass(frozen=True, slots=True)
class PairedTurns:
    """A latency over paired turns with the endpoint's detector and with a manual commit, in ms.

    `detector` and `manual` are medians over the pairs; `difference` is the mean, detector minus manual.
    """

    detector: float | None
    manual: float | None
    difference: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``live-eval latency --json``."""
        return {
            "n": self.difference.n,
            "detector_ms": rounded(self.detector, 3),
            "manual_ms": rounded(self.manual, 3),
            "difference_ms": rounded(self.difference.value, 3),
            "interval_ms": interval_json(self.difference.interval, 3),
            "reason": self.difference.reason,
        }


@dataclass(frozen=True, slots=True)
class LatencyCost:
    """The cost in one latency over all pairs, and over the pairs without flagged turns."""

    paired: PairedTurns
    without_flagged: PairedTurns

    def as_json(self) -> dict[str, Any]:
        """Return the cost as printed by ``live-eval latency --json``."""
        return {**self.paired.as_json(), "without_flagged": self.without_flagged.as_json()}


@dataclass(frozen=True, slots=True)
class EndpointingCost:
    """The endpointing cost of a detector setting.

    Args:
        metrics: Cost for each of `COSTED`.
        premature: Number of responses that the detector began too early.
        unpaired: Number of turns without a counterpart.
    """

    metrics: Mapping[str, LatencyCost]
    premature: int
    unpaired: int

    @property
    def headline(self) -> LatencyCost:
        """The cost for the main latency."""
        return self.metrics[COSTED[0]]

    def as_json(self) -> dict[str, Any]:
        """Return the cost as printed by ``live-eval latency --json``; the main latency is also at the top."""
        return {
            **self.headline.as_json(),
            "metrics": {name: cost.as_json() for name, cost in self.metrics.items()},
            "premature": self.premature,
            "unpaired": self.unpaired,
        }


def endpointing_cost(detector: Sequence[TurnRecord], manual: Sequence[TurnRecord]) -> EndpointingCost:
    """Return the endpointing cost of a detector setting.

    Args:
        detector: Turns ended by the endpoint's detector.
        manual: Turns of the same cases ended by a manual commit.
    """
    sides = [latency_values(COSTED[0], turns) for turns in (detector, manual)]
    return EndpointingCost(
        metrics={name: _cost(name, detector, manual) for name in COSTED},
        premature=sum(turn.timing.premature for turn in detector if turn.captured),
        unpaired=len(sides[0].keys() ^ sides[1].keys()),
    )


def _cost(name: str, detector: Sequence[TurnRecord], manual: Sequence[TurnRecord]) -> LatencyCost:
    tails = {turn.turn_id: _tail_ms(turn) for turn in manual}
    ours = {key: value - tails[key] for key, value in latency_values(name, manual).items()}
    theirs = latency_values(name, detector)
    pairs = [turn for turn in detector if turn.turn_id in ours and turn.turn_id in theirs]
    late = {turn.turn_id for turn in (*detector, *manual) if turn.timing.flagged}
    clear = [turn for turn in pairs if turn.turn_id not in late]
    return LatencyCost(_paired(pairs, ours, theirs), _paired(clear, ours, theirs))


def _tail_ms(turn: TurnRecord) -> float:
    """Return the time from the frame with the end of speech to the commit; 0 if unknown."""
    trace = turn.trace
    if trace.user_done_ns is None or trace.voice_end_ns is None:
        return 0.0
    due = trace.frame_deadline_ns
    since_end = due[due >= trace.voice_end_ns]
    sent_ns = int(since_end[0]) if len(since_end) else trace.user_done_ns
    return max(0, trace.user_done_ns - sent_ns) / 1e6


def _paired(
    pairs: Sequence[TurnRecord], ours: Mapping[str, float], theirs: Mapping[str, float]
) -> PairedTurns:
    befores = [ours[turn.turn_id] for turn in pairs]
    afters = [theirs[turn.turn_id] for turn in pairs]
    units = resampling_units(pairs)
    difference = paired_difference(befores, afters, units.of_turns, drawn_as=units.drawn_as)
    return PairedTurns(quantile(afters, 0.5), quantile(befores, 0.5), difference)
