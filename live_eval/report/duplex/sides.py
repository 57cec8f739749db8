"""Represent a page's sides: a clean and an impaired run, or two endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.trial import SENTINEL
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics, EndpointProfile
from live_eval.campaigns.duplex.probes import PROBES
from live_eval.report.cells import Cell
from live_eval.report.duplex.trial_view import TrialView

__all__ = ["ConditionView", "Side", "conditions_of", "probes_of", "sentinel_link"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Side:
    """A run of a campaign.

    Args:
        index: Position on the page, which determines the colour.
        note: Remark, such as the impairment; empty for none.
        trials: Trials and their repetitions.
    """

    index: int
    label: str
    note: str
    trials: Sequence[TrialView]
    conditions: Sequence[ConditionMetrics]
    profile: EndpointProfile


@dataclass(frozen=True, slots=True, eq=False)
class ConditionView:
    """The results of one side for a probe condition.

    Args:
        alone: Whether this is the page's only side, whose name is then omitted.
    """

    side: Side
    metrics: ConditionMetrics
    alone: bool

    @property
    def probe(self) -> str:
        """The probe's name."""
        return self.metrics.probe

    @property
    def name(self) -> str:
        """The condition's name."""
        return self.metrics.condition

    @property
    def label(self) -> Cell:
        """The condition's name, with the side's name if there are several."""
        return Cell(
            self.name,
            run=None if self.alone else self.side.index,
            note="" if self.alone else self.side.label,
            href=self.link(),
        )

    @property
    def trials(self) -> list[TrialView]:
        """The condition's trials and their repetitions."""
        return [
            view
            for view in self.side.trials
            if (view.played.facts.probe, view.played.facts.condition) == (self.probe, self.name)
        ]

    def count(self, outcome: Outcome) -> int:
        """Return the number of trials and repetitions with an outcome."""
        return sum(view.played.outcome is outcome for view in self.trials)

    def link(self, outcome: Outcome | None = None) -> str:
        """Return the link to a list of the condition's trials, optionally filtered by outcome."""
        only = {} if outcome is None else {"outcome": outcome.value}
        return _listed(probe=self.probe, condition=self.name, side=str(self.side.index), **only)

    def values(self, duration: str) -> list[tuple[float, TrialView]]:
        """Return a duration in ms for each trial that has it and is not void."""
        return [
            (ms, view)
            for view in self.trials
            if view.played.passed is not None and (ms := view.milliseconds(duration)) is not None
        ]


def sentinel_link(side: int, part: str) -> str:
    """Return the link to a list of the trials in a drift check."""
    return _listed(probe=SENTINEL, condition=part, side=str(side))


def _listed(**asked: str) -> str:
    return f"#{urlencode(asked, quote_via=quote)}"


def conditions_of(sides: Sequence[Side], probe: str) -> list[ConditionView]:
    """Return a probe's conditions in the order of the summary, with both sides of a condition adjacent."""
    found = [
        ConditionView(side, metrics, len(sides) == 1)
        for side in sides
        for metrics in side.conditions
        if metrics.probe == probe
    ]
    names = list(dict.fromkeys(condition.name for condition in found))
    return sorted(found, key=lambda condition: (names.index(condition.name), condition.side.index))


def probes_of(sides: Iterable[Side]) -> list[str]:
    """Return the sides' probes in the order of `PROBES`, followed by custom ones."""
    played = dict.fromkeys(metrics.probe for side in sides for metrics in side.conditions)
    return sorted(played, key=[*PROBES, *played].index)
