"""Compute the metrics of one condition of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from live_eval.analysis.latency.campaign_latencies import METRICS, CampaignLatency, campaign_latency
from live_eval.analysis.latency.cost import CostPerMinute, cost_per_minute
from live_eval.analysis.latency.delivery import DeliveryRate, StallRate, delivery_rate, stalls
from live_eval.analysis.latency.waterfall import WaterfallStep, WaterfallTotal, waterfall, waterfall_total
from live_eval.analysis.summary.latencies import Lag, lag_of
from live_eval.campaigns.latency.campaign_file import PointRecord, StoredPoint
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.scoring.llm.budget import Price

__all__ = ["PointMetrics", "TurnCounts", "point_metrics"]

_UNANSWERED = (FailureKind.NO_RESPONSE, FailureKind.EMPTY_REPLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCounts:
    """Numbers of turns in a condition.

    Args:
        no_answer: Failed turns to which the endpoint did not respond.
        premature: Captured turns with a response that was cancelled because the user continued.
        early: Captured turns answered before the end of the user's speech.
        flagged: Captured turns whose lag exceeds the bound.
        uncertain: Captured turns with an uncertain end of speech.
    """

    n: int
    captured: int
    failed: Mapping[str, int]
    no_answer: int
    premature: int
    early: int
    flagged: int
    uncertain: int

    @property
    def n_failed(self) -> int:
        """The number of failed turns."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMetrics:
    """The metrics of one condition.

    Args:
        error: Reason why the run cannot be read; empty if it can.
        latencies: Latency for each of `METRICS`.
    """

    stored: StoredPoint
    error: str
    turns: TurnCounts
    lag: Lag
    latencies: Mapping[str, CampaignLatency]
    waterfall: Sequence[WaterfallStep]
    waterfall_total: WaterfallTotal
    stalls: Sequence[StallRate]
    delivery_rate: DeliveryRate
    cost: CostPerMinute

    @property
    def name(self) -> str:
        """The name of the condition."""
        return str(self.stored.name)

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``live-eval latency --json``."""
        return {
            **self.stored.model_dump(),
            "error": self.error,
            "turns": asdict(self.turns),
            "lag_ms": self.lag.percentiles_json(),
            "latencies": {name: latency.as_json() for name, latency in self.latencies.items()},
            "waterfall": [asdict(step) for step in self.waterfall],
            "waterfall_total": asdict(self.waterfall_total),
            "stalls": [asdict(rate) for rate in self.stalls],
            "delivery_rate": asdict(self.delivery_rate),
            "cost_per_minute": asdict(self.cost),
        }


def point_metrics(point: PointRecord, price: Price | None = None) -> PointMetrics:
    """Return the metrics of one condition; `price` is the price of the endpoint's model, if known."""
    turns = point.turns
    return PointMetrics(
        stored=point.stored,
        error=point.error,
        turns=_counts(turns),
        lag=lag_of(turn.timing for turn in turns if turn.captured),
        latencies={name: campaign_latency(name, turns) for name in METRICS},
        waterfall=waterfall(turns),
        waterfall_total=waterfall_total(turns),
        stalls=stalls(turns),
        delivery_rate=delivery_rate(turns),
        cost=cost_per_minute(turns, price),
    )


def _counts(turns: Sequence[TurnRecord]) -> TurnCounts:
    captured = [turn for turn in turns if turn.captured]
    failed = Counter(turn.failure.kind for turn in turns if turn.failure is not None)
    return TurnCounts(
        n=len(turns),
        captured=len(captured),
        failed={kind.value: count for kind, count in failed.most_common()},
        no_answer=sum(failed[kind] for kind in _UNANSWERED),
        premature=sum(turn.timing.premature for turn in captured),
        early=sum(_is_early(turn) for turn in captured),
        flagged=sum(turn.timing.flagged for turn in captured),
        uncertain=sum(turn.timing.uncertain for turn in captured),
    )


def _is_early(turn: TurnRecord) -> bool:
    """Return whether the reply is known to have begun before the end of the user's speech."""
    ns = turn.timing.first_byte.ns if turn.timing.first_byte.ns is not None else turn.timing.voice_to_voice.ns
    return ns is not None and ns < 0 and not turn.timing.uncertain
