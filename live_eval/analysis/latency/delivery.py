"""Measure the delivery of reply audio: playout stalls and delivery rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from live_eval.recording import TurnRecord
from live_eval.timing import ResponseRecord, play

__all__ = ["JITTER_BUFFERS_MS", "DeliveryRate", "StallRate", "delivery_rate", "delivery_rate_of", "stalls"]

JITTER_BUFFERS_MS = (0, 20, 40, 60, 100, 200)
"""The jitter-buffer depths for which stalls are counted."""


@dataclass(frozen=True, slots=True)
class StallRate:
    """The number and length of playout stalls per minute of reply audio; None without reply audio."""

    buffer_ms: int
    per_minute: float | None
    ms_per_minute: float | None


@dataclass(frozen=True, slots=True)
class DeliveryRate:
    """The delivery rate of n replies: 1 is real time, 10 is ten times as fast.

    `reason` is the reason for a missing median or 5th percentile.
    """

    n: int
    median: float | None
    p05: float | None
    reason: str


def stalls(turns: Sequence[TurnRecord]) -> list[StallRate]:
    """Return the playout stalls for each depth in `JITTER_BUFFERS_MS`."""
    replies = _replies(turns)
    minutes = sum(play(reply).heard_samples / (reply.rate_hz or 1) for reply in replies) / 60
    found = []
    for buffer_ms in JITTER_BUFFERS_MS:
        lengths = [play(reply, jitter_buffer_ns=buffer_ms * 1_000_000).stall_ns for reply in replies]
        count, total_ns = sum(map(len, lengths)), sum(int(each.sum()) for each in lengths)
        found.append(
            StallRate(
                buffer_ms,
                round(count / minutes, 3) if minutes else None,
                round(total_ns / 1e6 / minutes, 3) if minutes else None,
            )
        )
    return found


def delivery_rate(turns: Sequence[TurnRecord]) -> DeliveryRate:
    """Return the median and the 5th percentile of the replies' delivery rates."""
    rates = [rate for reply in _replies(turns) if (rate := delivery_rate_of(reply)) is not None]
    if not rates:
        return DeliveryRate(0, None, None, "no reply of at least two chunks")
    median, p05 = (float(np.quantile(rates, share, method="inverted_cdf")) for share in (0.5, 0.05))
    return DeliveryRate(
        len(rates),
        round(median, 3) if math.isfinite(median) else None,
        round(p05, 3) if math.isfinite(p05) else None,
        "" if math.isfinite(median) else "at least half of the replies arrived in one burst",
    )


def delivery_rate_of(reply: ResponseRecord) -> float | None:
    """Return the ratio of a reply's audio length to the time in which it arrived.

    The time is from the first chunk to the last, without idle gaps of the sender. The ratio is infinite if
    all chunks arrived at once, and None for fewer than two chunks.
    """
    arrivals, samples = reply.chunk_arrival_ns, reply.chunk_samples
    followed = np.ones(max(0, len(arrivals) - 1), np.bool_)
    followed[[index - 1 for index in reply.fresh_chunks if 0 < index < len(arrivals)]] = False
    if not followed.any() or not reply.rate_hz:
        return None
    took_ns = int(np.diff(arrivals)[followed].sum())
    audio_ns = int(samples[:-1][followed].sum()) * 1_000_000_000 / reply.rate_hz
    return audio_ns / took_ns if took_ns > 0 else math.inf


def _replies(turns: Sequence[TurnRecord]) -> list[ResponseRecord]:
    headlines = (turn.headline for turn in turns if turn.captured)
    return [reply for reply in headlines if reply is not None and len(reply.chunk_samples)]
