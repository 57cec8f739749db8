"""The delivery of reply audio: playout stalls and delivery rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from live_eval.analysis.statistics.intervals import rounded
from live_eval.recording import TurnRecord
from live_eval.timing import ResponseRecord, play

__all__ = ["JITTER_BUFFERS_MS", "delivery_rate", "delivery_rate_of", "stalls"]

JITTER_BUFFERS_MS = (0, 20, 40, 60, 100, 200)
"""The jitter-buffer depths for which stalls are counted."""


def stalls(turns: Sequence[TurnRecord]) -> list[dict[str, Any]]:
    """Return playout stalls for each of `JITTER_BUFFERS_MS`.

    Returns:
        For each ``buffer_ms``: ``per_minute``, the number of stalls per minute of reply audio, and
        ``ms_per_minute``, their length; None if there is no reply audio.
    """
    replies = _replies(turns)
    minutes = sum(play(reply).heard_samples / (reply.rate_hz or 1) for reply in replies) / 60
    found = []
    for buffer_ms in JITTER_BUFFERS_MS:
        lengths = [play(reply, jitter_buffer_ns=buffer_ms * 1_000_000).stall_ns for reply in replies]
        count, total_ns = sum(map(len, lengths)), sum(int(each.sum()) for each in lengths)
        found.append(
            {
                "buffer_ms": buffer_ms,
                "per_minute": rounded(count / minutes, 3) if minutes else None,
                "ms_per_minute": rounded(total_ns / 1e6 / minutes, 3) if minutes else None,
            }
        )
    return found


def delivery_rate(turns: Sequence[TurnRecord]) -> dict[str, Any]:
    """Return the delivery rate of reply audio: 1 is the pace of speech, 10 is ten times as fast.

    Returns:
        ``n`` replies, the ``median`` and the 5th percentile ``p05`` of their rates, each the rate of one
        reply;
        None with the ``reason``.
    """
    rates = [rate for reply in _replies(turns) if (rate := delivery_rate_of(reply)) is not None]
    if not rates:
        return {"n": 0, "median": None, "p05": None, "reason": "no reply in two chunks or more"}
    median, p05 = (float(np.quantile(rates, share, method="inverted_cdf")) for share in (0.5, 0.05))
    return {
        "n": len(rates),
        "median": rounded(median, 3) if math.isfinite(median) else None,
        "p05": rounded(p05, 3) if math.isfinite(p05) else None,
        "reason": "" if math.isfinite(median) else "the chunks of half of the replies arrived all at once",
    }


def delivery_rate_of(reply: ResponseRecord) -> float | None:
    """Return the ratio of a reply's audio length to its arrival time, from first to last chunk.

    A chunk arrives when it is complete, so the last chunk is excluded, as are idle gaps of the sender.
    Infinite if all chunks arrived at once; None for fewer than two chunks.
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
    """Return the captured turns' answers with audio."""
    headlines = (turn.headline for turn in turns if turn.captured)
    return [reply for reply in headlines if reply is not None and len(reply.chunk_samples)]
