"""Campaign-level values: profiles, differences, metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.turn_taking import DEFINITIONS, SOURCES, MetricDefinition
from live_eval.report.bars import BarChart, difference_chart
from live_eval.report.duplex.definitions import DURATION_TITLES, spelt
from live_eval.report.duplex.sides import Side
from live_eval.report.tables import Cell, Column, Table, number, ranged

__all__ = ["MetricRow", "Tile", "metric_rows", "pair_charts", "pair_table", "tiles"]

_QUICK = (
    ("response_latency", "answers after"),
    ("audible_stop", "is silent after"),
    ("provider_stop", "reports its stop after"),
    ("new_reply", "answers an interruption after"),
)
_NONE = {"difference": {"value": None, "interval": None, "reason": ""}}
_SHARES = (("yielding", "yields to interruptions"), ("selectivity", "ignores speech that is not for it"))


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline value; `axis` is the measured quality: patient, quick or selective."""

    axis: str
    what: str
    value: str
    unit: str
    more: str


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A published metric on one side.

    Args:
        values: Value as defined, corrected value and difference, as text.
        n: Number of events behind the first two values.
        why: Effect of the correction, or reason for a missing value.
    """

    definition: MetricDefinition
    side: Side
    values: tuple[str, str, str]
    n: str
    why: str


def tiles(side: Side) -> list[Tile]:
    """Return the headline values for an endpoint's patience, quickness and selectivity."""
    return [
        *_patient(side.profile["patience"]),
        *_quick(side.profile["quickness"]),
        *_selective(side.profile),
    ]


def _patient(patience: Mapping[str, Any]) -> Iterator[Tile]:
    survived = patience["survived"]
    if not survived:
        return
    longest, last = patience["longest_pause_ms"], list(survived)[-1]
    more = "the longest tested" if last.split()[0] == str(longest) else f"tested up to {last}"
    yield Tile("patient", "waits through pauses up to", number(longest), "ms", more)


def _quick(quickness: Mapping[str, Any]) -> Iterator[Tile]:
    for name, what in _QUICK:
        figures = quickness[name]
        if figures["n"]:
            yield Tile("quick", f"{what}, p50", number(figures["p50"]), "ms", _interval_and_n(figures))


def _selective(profile: Mapping[str, Any]) -> Iterator[Tile]:
    for name, what in _SHARES:
        share = profile[name]
        if share["n"]:
            yield Tile("selective", what, number(share["value"]), "%", _interval_and_n(share))


def _interval_and_n(figures: Mapping[str, Any]) -> str:
    found = figures["interval"]
    between = "" if found is None else f"{number(found[0])} to {number(found[1])}, "
    return f"{between}n {figures['n']}"


def pair_table(pairs: Sequence[Mapping[str, Any]]) -> Table:
    """Return the differences between two sides by condition, from the summary's ``paired``."""
    columns = [Column("probe", numeric=False), Column("condition", numeric=False)]
    columns += map(Column, ("pairs", "other outcome", "passed, points"))
    columns += (Column(f"{DURATION_TITLES[name]}, ms") for name, _ in _QUICK)
    rows = [
        (
            Cell(str(row["probe"]), href=f"#probe-{row['probe']}"),
            Cell(str(row["condition"])),
            Cell(str(row["pairs"])),
            _changes(row["outcomes"]),
            _difference(row["passed"]),
            *(
                _difference(found["difference"])
                if (found := row["durations"].get(name))
                else Cell(number(None))
                for name, _ in _QUICK
            ),
        )
        for row in pairs
    ]
    return Table(tuple(columns), tuple(rows))


def pair_charts(
    pairs: Sequence[Mapping[str, Any]], sides: Sequence[Side], durations: Sequence[str]
) -> list[tuple[str, BarChart]]:
    """Draw the differences between two sides for a probe's conditions.

    Args:
        pairs: Rows of the probe in the summary's ``paired``.
        durations: Durations to draw after the pass rate.
    """
    if not pairs:
        return []
    first, second = (side.label for side in sides)
    shares = [
        (
            Cell(str(row["condition"])),
            row["passed"]["value"],
            row["passed"]["interval"],
            (Cell(str(row["passed"]["n"])), _changes(row["outcomes"]), _difference(row["passed"])),
        )
        for row in pairs
    ]
    counted = ("pairs", "other outcome", "difference")
    charts = [("Passed", difference_chart("condition", "percentage points", counted, shares, unit="points"))]
    columns = ("pairs", f"{first}, p50", f"{second}, p50", "mean difference")
    for name in durations:
        rows = [
            (
                Cell(str(row["condition"])),
                found["difference"]["value"],
                found["difference"]["interval"],
                (
                    Cell(str(found["difference"]["n"])),
                    Cell(number(found["first_p50"])),
                    Cell(number(found["second_p50"])),
                    _difference(found["difference"]),
                ),
            )
            for row in pairs
            if (found := row["durations"].get(name)) is not None and found["difference"]["n"]
        ]
        if rows:
            title = DURATION_TITLES[name].capitalize()
            charts.append((title, difference_chart("condition", "milliseconds", columns, rows)))
    return charts


def _changes(outcomes: Mapping[str, int]) -> Cell:
    """Return the number of pairs with different outcomes, with the outcomes."""
    changed = {pair: count for pair, count in outcomes.items() if len(set(pair.split(" → "))) > 1}
    return Cell(
        str(sum(changed.values())), note="; ".join(f"{spelt(pair)}: {n}" for pair, n in changed.items())
    )


def _difference(estimate: Mapping[str, Any]) -> Cell:
    words = ranged(estimate["value"], estimate["interval"], signed=True)
    return Cell(words, strong=True, note=estimate["reason"])


def metric_rows(sides: Sequence[Side], metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[MetricRow]]:
    """Return the published metrics with at least one event, by source.

    Args:
        metrics: Metrics of each side by name, as JSON values from `live_eval.analysis.turn_taking`.
    """
    rows: dict[str, list[MetricRow]] = {}
    for name, definition in DEFINITIONS.items():
        if any(name in each and each[name]["n"] + each[name]["n_corrected"] for each in metrics):
            source = next(words for prefix, words in SOURCES.items() if name.startswith(f"{prefix}."))
            rows.setdefault(source, []).extend(
                _metric(definition, side, figures[name])
                for side, figures in zip(sides, metrics, strict=True)
                if name in figures
            )
    return rows


def _metric(definition: MetricDefinition, side: Side, figure: Mapping[str, Any]) -> MetricRow:
    digits = 0 if definition.unit == "ms" else 3
    events = dict.fromkeys((figure["n"], figure["n_corrected"]))
    return MetricRow(
        definition,
        side,
        (
            number(figure["as_defined"], digits),
            number(figure["corrected"], digits),
            number(figure["difference"], digits, signed=True),
        ),
        ", ".join(map(str, events)),
        figure["why"],
    )
