"""Estimates as JSON values, as every part of an audit prints them."""

from __future__ import annotations

from typing import Any

from live_eval.statistics import Estimate

__all__ = ["estimate_json"]

_DIGITS = 6


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate with its interval, or why it has none."""
    found = estimate.interval
    return {
        "value": None if estimate.value is None else round(estimate.value, _DIGITS),
        "interval": None if found is None else [round(found.low, _DIGITS), round(found.high, _DIGITS)],
        "n": estimate.n,
        "scripts": estimate.clusters,
        "reason": estimate.reason,
    }
