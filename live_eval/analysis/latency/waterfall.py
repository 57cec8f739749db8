"""Split a turn's latency into the contributions of its steps, which add up exactly to the total.

The user waits twice: until the session is ready, and from the end of speech until the reply arrives. Each
contribution is the time that a step adds to the previous steps, so overlapping steps count only once (for
example, a transcript that arrives before the first audio). Pipecat's latency breakdowns add up in the same
way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from live_eval.analysis.latency.campaign_latencies import latency_of
from live_eval.recording import TurnRecord

__all__ = ["REPLY_PARTS", "WaterfallStep", "WaterfallTotal", "waterfall", "waterfall_of", "waterfall_total"]

REPLY_PARTS = {
    "endpointing": "endpointing",
    "first_byte": "first_byte",
    "first_audible": "voice_to_voice",
    "transcript": "transcript",
    "complete": "complete",
}
"""The steps of the reply in order, with the latency at which each step ends."""

_SESSION = "session"
_ALONGSIDE = "first_rtp"  # the first packet of a media track may arrive during other steps


def waterfall_of(turn: TurnRecord) -> dict[str, int] | None:
    """Return a turn's contributions in nanoseconds by step, in order.

    The first steps are the connection setup, with the transport's names (``dns``, ``tcp``, ``tls``, …), then
    ``session`` (until the endpoint's session is ready), then `REPLY_PARTS`. Later turns of a session have no
    setup steps. The first step of the reply is negative if the endpoint responds before the end of speech.

    Returns:
        The contributions; None if the turn failed or its end of speech is uncertain.
    """
    if not turn.captured or turn.timing.uncertain or turn.trace.voice_end_ns is None:
        return None
    return {**_setup(turn), **_reply(turn)}


def _setup(turn: TurnRecord) -> dict[str, int]:
    connect_ns = turn.timing.connect.ns
    if connect_ns is None:
        return {}
    parts = {step: ns for step, ns in turn.trace.setup_ns.items() if step != _ALONGSIDE}
    return {**parts, _SESSION: connect_ns - sum(parts.values())}


def _reply(turn: TurnRecord) -> dict[str, int]:
    parts: dict[str, int] = {}
    reached_ns: int | None = None
    for part, name in REPLY_PARTS.items():
        at_ns = latency_of(turn, name).ns
        if at_ns is None:
            continue
        parts[part] = at_ns if reached_ns is None else max(0, at_ns - reached_ns)
        reached_ns = at_ns if reached_ns is None else max(reached_ns, at_ns)
    return parts


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """The contribution of a step over a condition's turns; `share` is relative to the mean total."""

    part: str
    median_ms: float
    mean_ms: float
    share: float | None


@dataclass(frozen=True, slots=True)
class WaterfallTotal:
    """The sum of all contributions over n turns.

    `mean_ms` is the sum of the mean contributions; `median_ms` is not the sum of the medians.
    """

    n: int
    mean_ms: float | None
    median_ms: float | None


def waterfall(turns: Sequence[TurnRecord]) -> list[WaterfallStep]:
    """Summarise the contributions over a condition's turns.

    A missing step contributes 0, so the means (but not the medians) add up to the mean total.
    """
    each = [parts for turn in turns if (parts := waterfall_of(turn)) is not None]
    if not each:
        return []
    names = _in_order(each)
    table = np.asarray([[parts.get(name, 0) for name in names] for parts in each], np.float64) / 1e6
    means, medians = table.mean(axis=0).tolist(), np.median(table, axis=0).tolist()
    total = sum(means)
    return [
        WaterfallStep(name, round(median, 3), round(mean, 3), round(mean / total, 6) if total else None)
        for name, median, mean in zip(names, medians, means, strict=True)
    ]


def waterfall_total(turns: Sequence[TurnRecord]) -> WaterfallTotal:
    """Return the total of the contributions of `waterfall`."""
    totals = [sum(parts.values()) / 1e6 for turn in turns if (parts := waterfall_of(turn)) is not None]
    return WaterfallTotal(
        len(totals),
        round(float(np.mean(totals)), 3) if totals else None,
        round(float(np.median(totals)), 3) if totals else None,
    )


def _in_order(each: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the steps that occur in any turn: setup steps in order of first occurrence, then the others."""
    present = dict.fromkeys(name for parts in each for name in parts)
    setup = [name for name in present if name not in (_SESSION, *REPLY_PARTS)]
    return [*setup, *(name for name in (_SESSION, *REPLY_PARTS) if name in present)]
