"""Present the conditions on a latency campaign's page, with links to their turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from live_eval.analysis.latency.campaign_latencies import latency_values
from live_eval.campaigns.latency.campaign_file import PointRecord, StoredPoint
from live_eval.campaigns.latency.point_metrics import PointMetrics
from live_eval.campaigns.latency.points import SessionKind
from live_eval.report.file_names import RUN_PAGE
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["PointView", "detector_in_words", "load_in_words", "turn_at"]


@dataclass(frozen=True, slots=True, eq=False)
class PointView:
    """A condition on the page.

    Args:
        colour: Position in the sweep, which determines the colour; None outside the sweep.
    """

    colour: int | None
    record: PointRecord
    metrics: PointMetrics

    @property
    def name(self) -> str:
        """The condition's name."""
        return self.metrics.name

    @property
    def link(self) -> str:
        """The link to the run's report from the campaign folder; empty if the run cannot be read."""
        return "" if self.record.error else f"{quote(self.record.path.name, safe='')}/{RUN_PAGE}"

    def link_to(self, turn_id: str) -> str:
        """Return the link to a turn's timeline."""
        return f"{self.link}#turn={quote(turn_id, safe='')}" if self.link else ""

    def ascending(self, metric: str) -> list[tuple[float, str]]:
        """Return a latency's values in ms, each with its turn, in ascending order."""
        values = latency_values(metric, self.record.turns)
        return sorted((value, turn_id) for turn_id, value in values.items())


def turn_at(ascending: Sequence[tuple[float, str]], share: float) -> str:
    """Return the turn nearest to a percentile, given as a share between 0 and 1."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)][1]


def load_in_words(point: StoredPoint) -> str:
    """Describe the settings that vary by condition: concurrency, arrivals, input, detector, session kind."""
    parts = [
        f"{counted(point.concurrency or 1, 'concurrent session')}",
        "" if point.arrivals in (None, "closed") else point.arrivals,
        "" if point.input_s is None else f"{point.input_s:g} s of speech",
        detector_in_words(point) if point.turn_detection else "",
        "manual turns" if point.turn_mode == TurnMode.MANUAL else "",
        "warm sessions" if point.sessions == SessionKind.WARM else "",
    ]
    return ", ".join(filter(None, parts))


def detector_in_words(point: StoredPoint) -> str:
    """Describe the endpoint's detector settings; "default" if there are none."""
    return ", ".join(f"{key}={value}" for key, value in (point.turn_detection or {}).items()) or "default"
