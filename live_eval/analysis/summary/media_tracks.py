"""Summarise packet loss, jitter and setup time of a run's media tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.intervals import quantile, rounded
from live_eval.analysis.summary.observations import Observation

__all__ = ["MediaSummary", "summarise_media"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSummary:
    """The metrics of a run's media tracks, including failed turns.

    Args:
        turns: Number of turns with a track.
        packets: Number of received packets.
        lost: Number of packets that never arrived or arrived too late.
        lossy: Number of turns with lost packets.
        concealed_ms: Duration of audio replaced by silence.
        jitter_ms: Median over turns of the interarrival jitter.
        sent_lost: Number of user audio packets that endpoints reported as lost; None if there are no reports.
        round_trip_ms: Median RTCP round-trip time; None if unknown.
        setup_ms: Median duration of each step of the connection setup.
    """

    turns: int
    packets: int
    lost: int
    lossy: int
    concealed_ms: float
    jitter_ms: float | None
    sent_lost: int | None
    round_trip_ms: float | None
    setup_ms: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the summary as printed by ``show --json``."""
        return {
            "turns": self.turns,
            "packets": self.packets,
            "lost": self.lost,
            "turns_with_loss": self.lossy,
            "concealed_ms": rounded(self.concealed_ms, 3),
            "jitter_ms": rounded(self.jitter_ms, 3),
            "sent_lost": self.sent_lost,
            "round_trip_ms": rounded(self.round_trip_ms, 3),
            "setup_ms": {name: rounded(value, 3) for name, value in self.setup_ms.items()},
        }

    def in_words(self) -> str:
        """Describe the media tracks in a sentence."""
        sent = self.packets + self.lost
        share = f"{100 * self.lost / sent:.2g} % lost" if self.lost else "none lost"
        parts = [f"media: {self.packets} packets, {share}"]
        if self.lost:
            parts.append(f"in {self.lossy} of {self.turns} turns ({self.concealed_ms:.0f} ms of silence)")
        if self.sent_lost:
            parts.append(f"the endpoint reports {self.sent_lost} of the user's packets as lost")
        if self.jitter_ms is not None:
            parts.append(f"jitter p50 {self.jitter_ms:.1f} ms")
        if self.setup_ms:
            steps = ", ".join(f"{name} {value:.0f}" for name, value in self.setup_ms.items())
            parts.append(f"setup p50 in ms: {steps}")
        return "; ".join(parts)


def summarise_media(turns: Sequence[Observation]) -> MediaSummary | None:
    """Summarise the media tracks; None if there are none."""
    stats = [turn.media for turn in turns if turn.media is not None]
    if not stats:
        return None
    steps: dict[str, list[float]] = {}
    for turn in turns:
        for name, ns in turn.setup_ns.items():
            steps.setdefault(name, []).append(ns / 1e6)
    counted = [each.sent_lost for each in stats if each.sent_lost is not None]
    trips = [each.round_trip_ns / 1e6 for each in stats if each.round_trip_ns is not None]
    return MediaSummary(
        turns=len(stats),
        packets=sum(each.packets for each in stats),
        lost=sum(each.lost for each in stats),
        lossy=sum(each.lost > 0 for each in stats),
        concealed_ms=sum(each.concealed_ns for each in stats) / 1e6,
        jitter_ms=quantile([each.jitter_ns / 1e6 for each in stats if each.packets], 0.5),
        sent_lost=sum(counted) if counted else None,
        round_trip_ms=quantile(trips, 0.5),
        setup_ms={name: quantile(values, 0.5) or 0.0 for name, values in steps.items()},
    )
