"""Drift in a campaign, measured with the same recordings at the start, middle and end.

The metrics show different causes of drift: reply latencies the endpoint, connection setup the network, and
lag live-eval itself. One provider's median over nine runs of the same cell ranged from 1,264 to 2,039 ms
(cekura-bench, https://github.com/cekura-ai/cekura-bench): without a drift check, such drift may be mistaken
for a difference between conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from live_eval.analysis.latency.latencies import TURNS, latency_of
from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_quantile,
    interval_json,
    paired_difference,
    rounded,
)
from live_eval.recording import TurnRecord

__all__ = ["DRIFT_METRICS", "drift_metrics"]

DRIFT_METRICS = ("connect", "first_byte", "voice_to_voice", "lag")
"""One network metric, two endpoint metrics, and one metric of live-eval itself."""


def drift_metrics(turns: Sequence[TurnRecord], first: Sequence[TurnRecord]) -> dict[str, Any]:
    """Return the metrics of one drift check, compared with the campaign's first.

    The recordings are always the same, so intervals and differences are over turns, not over scripts.

    Returns:
        ``answers``: how many of the ``n`` turns of each case were ``answered`` (silence and noise should not
        be); and ``figures``, for each of `DRIFT_METRICS` its ``n``, ``p50_ms``, ``interval_ms`` and
        ``reason``, the mean ``difference_ms`` from the first check over the turns measured in both, and
        its ``difference_interval_ms``; None for the first itself.
    """
    figures: dict[str, Any] = {}
    for name in DRIFT_METRICS:
        now, then = _values(turns, name), _values(first, name)
        median = estimate_quantile(list(now.values()), list(now), 0.5, drawn_as=TURNS)
        both = [key for key in now if key in then] if turns is not first else []
        difference = (
            paired_difference([then[key] for key in both], [now[key] for key in both], both, drawn_as=TURNS)
            if both
            else Estimate(None, 0, 0)
        )
        figures[name] = {
            "n": median.n,
            "p50_ms": rounded(median.value, 3),
            "interval_ms": interval_json(median.interval, 3),
            "reason": median.reason,
            "difference_ms": rounded(difference.value, 3),
            "difference_interval_ms": interval_json(difference.interval, 3),
        }
    return {"answers": _answers(turns), "figures": figures}


def _values(turns: Sequence[TurnRecord], name: str) -> Mapping[str, float]:
    """Return a metric in ms for each captured turn."""
    values: dict[str, float] = {}
    for turn in turns:
        if not turn.captured:
            continue
        ns = turn.timing.lag_ns if name == "lag" else latency_of(turn, name).ns
        if ns is not None:
            values[turn.turn_id] = ns / 1e6
    return values


def _answers(turns: Sequence[TurnRecord]) -> list[dict[str, Any]]:
    cases: dict[str, list[bool]] = {}
    for turn in turns:
        cases.setdefault(turn.case.case_id, []).append(turn.headline is not None)
    return [{"case": case, "n": len(answered), "answered": sum(answered)} for case, answered in cases.items()]
