"""The field's metrics of full duplex, each as its source defines it and with its known defects corrected.

One module for each source. All are pure functions of `Conversation`s; docs/duplex-metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from live_eval.analysis.turn_taking import eva, fdb_v1_0, fdb_v1_5, humdial, interaction_gym, tau2, turnbench
from live_eval.analysis.turn_taking.conversation import Conversation
from live_eval.analysis.turn_taking.figure import Definition, Figure

__all__ = ["DEFINITIONS", "SOURCES", "Definition", "Figure", "all_metrics"]

_MODULES = {
    "tau2": tau2,
    "fdb_v1.0": fdb_v1_0,
    "fdb_v1.5": fdb_v1_5,
    "eva": eva,
    "turnbench": turnbench,
    "interaction_gym": interaction_gym,
    "humdial": humdial,
}

SOURCES: Mapping[str, str] = {name: module.SOURCE for name, module in _MODULES.items()}
"""Where each source defines its metrics: repository, revision and file."""

DEFINITIONS: Mapping[str, Definition] = {
    definition.name: definition for module in _MODULES.values() for definition in module.DEFINITIONS
}
"""Every metric by its name."""


def all_metrics(conversations: Sequence[Conversation]) -> Mapping[str, Figure]:
    """Return every metric of every source over a set of conversations.

    Args:
        conversations: The conversations; a metric reads those that it applies to.

    Returns:
        A figure for each of `DEFINITIONS`, by name; one without a value says why.
    """
    return {
        f"{source}.{name}": figure
        for source, module in _MODULES.items()
        for name, figure in module.figures(conversations).items()
    }
