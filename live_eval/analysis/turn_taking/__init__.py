"""Compute published full-duplex metrics, as defined by their sources and with known defects corrected.

Each source has a module; docs/reference/turn-taking-metrics.md lists the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue
from live_eval.analysis.turn_taking import eva, fdb_v1_0, fdb_v1_5, humdial, interaction_gym, tau2, turnbench
from live_eval.analysis.turn_taking.speech import Conversation

__all__ = ["DEFINITIONS", "all_metrics"]

_MODULES = {
    "tau2": tau2,
    "fdb_v1.0": fdb_v1_0,
    "fdb_v1.5": fdb_v1_5,
    "eva": eva,
    "turnbench": turnbench,
    "interaction_gym": interaction_gym,
    "humdial": humdial,
}

DEFINITIONS: Sequence[MetricDefinition] = tuple(
    definition for module in _MODULES.values() for definition in module.DEFINITIONS
)
"""Every metric, in the order of `all_metrics`."""


def all_metrics(conversations: Sequence[Conversation]) -> Mapping[str, MetricValue]:
    """Return all metrics of the conversations by name; a missing value has a reason."""
    return {
        f"{source}.{name}": value
        for source, module in _MODULES.items()
        for name, value in module.metrics(conversations).items()
    }
