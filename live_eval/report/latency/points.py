"""The conditions on a latency campaign's page, and the links to their turns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from live_eval.analysis.latency.latencies import latency_values
from live_eval.campaigns.latency.summary import PointRecord
from live_eval.report.files import RUN_PAGE
from live_eval.text.wording import counted

__all__ = ["PERCENTILES", "PointView", "detector_in_words", "load_in_words", "turn_at"]

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p95_ms": 0.95, "p99_ms": 0.99}
"""The percentiles of a summary."""


@dataclass(frozen=True, slots=True, eq=False)
class PointView:
    """A condition on the page.

    Args:
        colour: Position in the sweep; None outside the sweep.
        figures: Entry in the campaign's summary.
    """

    colour: int | None
    record: PointRecord
    figures: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the condition."""
        return str(self.figures["name"])

    @property
    def link(self) -> str:
        """The path of the run's report, relative to the campaign folder; empty if the run cannot be read."""
        return "" if self.record.error else f"{quote(self.record.path.name, safe='')}/{RUN_PAGE}"

    def link_to(self, turn_id: str) -> str:
        """Return the link to the timeline of a turn."""
        return f"{self.link}#turn={quote(turn_id, safe='')}" if self.link else ""

    def ascending(self, metric: str) -> list[tuple[float, str]]:
        """Return the values in ms behind a latency's percentiles, each with its turn, in ascending order."""
        values = latency_values(metric, self.record.turns)
        return sorted((value, turn_id) for turn_id, value in values.items())


def turn_at(ascending: Sequence[tuple[float, str]], share: float) -> str:
    """Return the turn at the nearest rank of a percentile, given as a share between 0 and 1."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)][1]


def load_in_words(figures: Mapping[str, Any]) -> str:
    """Return the settings varied between conditions: concurrency, arrivals, input, detector, session kind."""
    arrivals, sessions, input_s = figures["arrivals"], figures["sessions"], figures["input_s"]
    parts = [
        f"{counted(figures['concurrency'] or 1, 'concurrent session')}",
        "" if arrivals in (None, "closed") else str(arrivals),
        "" if input_s is None else f"{input_s:g} s of speech",
        detector_in_words(figures) if figures["turn_detection"] else "",
        "manual turns" if figures["turn_mode"] == "manual" else "",
        "warm sessions" if sessions == "warm" else "",
    ]
    return ", ".join(filter(None, parts))


def detector_in_words(figures: Mapping[str, Any]) -> str:
    """Return the settings of the endpoint's detector; "default" if none is set."""
    set_to = figures["turn_detection"] or {}
    return ", ".join(f"{key}={value}" for key, value in set_to.items()) or "default"
