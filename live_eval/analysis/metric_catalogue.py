"""List the published metrics: latencies of turns, and full-duplex metrics of conversations."""

from __future__ import annotations

from collections.abc import Mapping

from live_eval.analysis import turn_taking
from live_eval.analysis.latency import definitions as latency
from live_eval.analysis.metric_definition import MetricDefinition

__all__ = ["DEFINITIONS"]

DEFINITIONS: Mapping[str, MetricDefinition] = {
    each.name: each for each in (*latency.DEFINITIONS, *turn_taking.DEFINITIONS)
}
"""Every metric by its name."""
