"""What the page shows of a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.campaigns.duplex.outcomes import DURATIONS, Rule
from live_eval.campaigns.duplex.probes import PROBES
from live_eval.report.bars import BarChart
from live_eval.report.duplex.charts import duration_chart, outcome_chart, timeline_legend, timelines
from live_eval.report.duplex.sides import Side, conditions_of
from live_eval.report.duplex.tables import pair_charts
from live_eval.report.duplex.trials import telling
from live_eval.report.duplex.words import DURATION_TITLES, spelt

__all__ = ["ProbeSection", "probe_section"]


@dataclass(frozen=True, slots=True)
class ProbeSection:
    """A probe on the page.

    Args:
        name: Its name.
        what: What it plays; empty if it is not one of ours.
        passes: The outcomes with which an endpoint does what is asked of it; for each thing, if several are.
        outcomes: How the trials ended.
        telling: The durations that say most, each with its caption.
        further: The other durations.
        pairs: The differences between the sides, each with what it is of.
        timelines: Every trial on two tracks: for each condition, a chart for each side.
        legend: The style and the name of what the timelines show.
    """

    name: str
    what: str
    passes: str
    outcomes: BarChart
    telling: tuple[tuple[str, BarChart], ...]
    further: tuple[tuple[str, BarChart], ...]
    pairs: tuple[tuple[str, BarChart], ...]
    timelines: tuple[tuple[str, tuple[BarChart, ...]], ...]
    legend: tuple[tuple[str, str], ...]


def probe_section(name: str, sides: Sequence[Side], pairs: Sequence[Mapping[str, Any]]) -> ProbeSection:
    """Return what the page shows of a probe.

    Args:
        name: The probe.
        sides: The sides of the page.
        pairs: The summary's ``paired``.
    """
    conditions = conditions_of(sides, name)
    known = PROBES.get(name)
    rules = dict.fromkeys(Rule(condition.figures["rule"]) for condition in conditions)
    main = list(dict.fromkeys(each for rule in rules for each in telling(rule)))
    charts = {each: chart for each in DURATIONS if (chart := duration_chart(each, conditions)) is not None}
    captions = {each: f"{DURATION_TITLES[each].capitalize()}, ms: {DURATIONS[each]}" for each in charts}
    drawn: dict[str, list[BarChart]] = {}
    for condition in conditions:
        if (chart := timelines(condition)) is not None:
            drawn.setdefault(condition.name, []).append(chart)
    return ProbeSection(
        name=name,
        what=known.what if known is not None else "",
        passes=_passes(list(rules)),
        outcomes=outcome_chart(conditions),
        telling=tuple((captions[each], charts[each]) for each in main if each in charts),
        further=tuple((captions[each], chart) for each, chart in charts.items() if each not in main),
        pairs=tuple(pair_charts([row for row in pairs if row["probe"] == name], sides, main)),
        legend=tuple(timeline_legend(conditions)),
        timelines=tuple((condition, tuple(charts)) for condition, charts in drawn.items()),
    )


def _passes(rules: Sequence[Rule]) -> str:
    passes = {rule: " or ".join(map(spelt, rule.passes)) for rule in rules}
    if len(set(passes.values())) == 1:
        return passes[rules[0]]
    return "; ".join(f"{spelt(rule)}: {outcomes}" for rule, outcomes in passes.items())
