"""Build the tables of a duplex campaign: profiles, differences, and published metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from live_eval.analysis.metric_catalogue import DEFINITIONS
from live_eval.analysis.metric_definition import MetricDefinition, MetricValue
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics, EndpointProfile
from live_eval.analysis.turn_taking.trial_pairs import ConditionDifference
from live_eval.report.bars import BarChart, difference_chart
from live_eval.report.cells import NONE, Cell, Column, Table, estimate_cell, interval, number
from live_eval.report.duplex.glossary import DURATION_TITLES, spelt
from live_eval.report.duplex.sides import Side

__all__ = [
    "MetricRow",
    "Tile",
    "condition_table",
    "metric_rows",
    "pair_charts",
    "pair_table",
    "profile_table",
    "tiles",
]

_QUICK = (
    ("response_latency", "answers after"),
    ("audible_stop", "is silent after"),
    ("provider_stop", "reports its stop after"),
    ("new_reply", "answers an interruption after"),
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline value; `axis` is the quality that it measures: patient, quick or selective."""

    axis: str
    what: str
    value: str
    unit: str
    more: str


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A published metric on one side.

    Args:
        values: Value by the published definition, corrected value, and difference, as text.
        n: Number of events for each of the first two values.
        why: Effect of the correction, or the reason why a value is missing.
    """

    definition: MetricDefinition
    side: Side
    values: tuple[str, str, str]
    n: str
    why: str


def tiles(profile: EndpointProfile) -> list[Tile]:
    """Return the headline values: tolerance of pauses, quickness, and selectivity."""
    found = []
    if profile.survived:
        longest, last = profile.longest_pause_ms, list(profile.survived)[-1]
        more = "the longest tested" if last.split()[0] == str(longest) else f"tested up to {last}"
        found.append(Tile("patient", "waits through pauses up to", number(longest), "ms", more))
    for name, what in _QUICK:
        median = profile.quickness[name]["p50"]
        if median.n:
            found.append(Tile("quick", f"{what}, p50", number(median.value), "ms", _interval_and_n(median)))
    for what, share in _shares(profile):
        if share.n:
            found.append(Tile("selective", what, number(share.value), "%", _interval_and_n(share)))
    return found


def _shares(profile: EndpointProfile) -> Sequence[tuple[str, Estimate]]:
    return (
        ("yields to interruptions", profile.yielding),
        ("ignores speech not addressed to the model", profile.selectivity),
    )


def _interval_and_n(estimate: Estimate) -> str:
    between = "" if estimate.interval is None else f"{interval(estimate)}, "
    return f"{between}n {estimate.n}"


def profile_table(profile: EndpointProfile) -> Table:
    """Return the durations and shares of the endpoint's profile over all probes."""
    rows = [
        (
            Cell(f"{what}, ms"),
            Cell(str(found.n)),
            estimate_cell(found["p50"]),
            estimate_cell(found["p95"]),
        )
        for name, what in _QUICK
        if (found := profile.quickness[name]).n
    ]
    rows += [
        (Cell(f"{what}, %"), Cell(str(share.n)), estimate_cell(share), Cell(NONE))
        for what, share in _shares(profile)
        if share.n
    ]
    heads = Column("the endpoint", numeric=False), Column("n"), Column("p50 or share"), Column("p95")
    return Table(heads, tuple(rows))


def condition_table(conditions: Sequence[ConditionMetrics]) -> Table:
    """Return the outcomes and the median durations of each condition."""
    columns = [Column("probe", numeric=False), Column("condition", numeric=False), Column("passed, %")]
    columns += [Column("outcomes", numeric=False), Column("void")]
    columns += (Column(f"{DURATION_TITLES[name]} p50, ms") for name, _ in _QUICK)
    rows = [
        (
            Cell(each.probe),
            Cell(each.condition),
            estimate_cell(each.passed),
            Cell(", ".join(f"{spelt(outcome)} {count}" for outcome, count in each.outcomes.items())),
            Cell(str(each.void)),
            *(
                estimate_cell(found["p50"]) if (found := each.durations.get(name)) else Cell(NONE)
                for name, _ in _QUICK
            ),
        )
        for each in conditions
    ]
    return Table(tuple(columns), tuple(rows))


def pair_table(pairs: Sequence[ConditionDifference]) -> Table:
    """Return a table of the differences between two sides for each condition."""
    columns = [Column("probe", numeric=False), Column("condition", numeric=False)]
    columns += map(Column, ("pairs", "other outcome", "passed, points"))
    columns += (Column(f"{DURATION_TITLES[name]}, ms") for name, _ in _QUICK)
    rows = [
        (
            Cell(row.probe, href=f"#probe-{row.probe}"),
            Cell(row.condition),
            Cell(str(row.pairs)),
            _changes(row),
            _difference(row.passed),
            *(
                _difference(found.difference) if (found := row.durations.get(name)) else Cell(number(None))
                for name, _ in _QUICK
            ),
        )
        for row in pairs
    ]
    return Table(tuple(columns), tuple(rows))


def pair_charts(
    pairs: Sequence[ConditionDifference], sides: Sequence[Side], durations: Sequence[str]
) -> list[tuple[str, BarChart]]:
    """Draw the differences between two sides for a probe's conditions.

    Args:
        pairs: Differences for the probe's conditions.
        durations: Durations to draw below the pass rate.
    """
    if not pairs:
        return []
    first, second = (side.label for side in sides)
    shares = [
        (
            Cell(row.condition),
            row.passed,
            (Cell(str(row.passed.n)), _changes(row), _difference(row.passed)),
        )
        for row in pairs
    ]
    counted = ("pairs", "other outcome", "difference")
    charts = [("Passed", difference_chart("condition", "percentage points", counted, shares, unit="points"))]
    columns = ("pairs", f"{first}, p50", f"{second}, p50", "mean difference")
    for name in durations:
        rows = [
            (
                Cell(row.condition),
                found.difference,
                (
                    Cell(str(found.difference.n)),
                    Cell(number(found.first_p50)),
                    Cell(number(found.second_p50)),
                    _difference(found.difference),
                ),
            )
            for row in pairs
            if (found := row.durations.get(name)) is not None and found.difference.n
        ]
        if rows:
            title = DURATION_TITLES[name].capitalize()
            charts.append((title, difference_chart("condition", "milliseconds", columns, rows)))
    return charts


def _changes(pairs: ConditionDifference) -> Cell:
    """Return a cell with the number of pairs whose outcomes differ; a tooltip lists the outcomes."""
    changed = {(one, other): count for (one, other), count in pairs.outcomes.items() if one is not other}
    return Cell(
        str(sum(changed.values())),
        note="; ".join(f"{spelt(one)} → {spelt(other)}: {n}" for (one, other), n in changed.items()),
    )


def _difference(estimate: Estimate) -> Cell:
    return estimate_cell(estimate, signed=True, strong=True)


def metric_rows(
    sides: Sequence[Side], metrics: Sequence[Mapping[str, MetricValue]]
) -> dict[str, list[MetricRow]]:
    """Return rows for the published metrics that have events, by source; `metrics` has a map per side."""
    rows: dict[str, list[MetricRow]] = {}
    for name, definition in DEFINITIONS.items():
        if any(name in each and each[name].n + each[name].n_corrected for each in metrics):
            rows.setdefault(definition.source, []).extend(
                _metric(definition, side, values[name])
                for side, values in zip(sides, metrics, strict=True)
                if name in values
            )
    return rows


def _metric(definition: MetricDefinition, side: Side, value: MetricValue) -> MetricRow:
    digits = 0 if definition.unit == "ms" else 3
    return MetricRow(
        definition,
        side,
        (
            number(value.as_defined, digits),
            number(value.corrected, digits),
            number(value.difference, digits, signed=True),
        ),
        ", ".join(map(str, dict.fromkeys((value.n, value.n_corrected)))),
        value.why,
    )
