"""Build the tables on a latency campaign's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from live_eval.analysis.statistics.distribution import PERCENTILES
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.campaigns.latency.summary import DefinedLatencies, DetectorCost
from live_eval.report.bars import BarChart, difference_chart
from live_eval.report.cells import (
    Cell,
    Column,
    Table,
    difference_cell,
    estimate_cell,
    median_and_n,
    missing_cell,
    number,
    ranged,
)
from live_eval.report.latency.point_view import PointView, detector_in_words, load_in_words, turn_at
from live_eval.text.wording import counted

__all__ = [
    "METRIC_TITLES",
    "cost_table",
    "definitions_chart",
    "endpointing_chart",
    "point_table",
    "stall_table",
    "step_table",
    "sweep_table",
]

METRIC_TITLES = {
    **{
        f"{name}{suffix}": f"{LATENCY_TITLES[name]}{of}"
        for name in ("voice_to_voice", "first_byte")
        for suffix, of in (("", ""), ("_from_intended", ", from intended start"))
    },
    **{name: LATENCY_TITLES[name] for name in ("endpointing", "lead_silence", "transcript")},
    "complete": "complete",
    "connect": LATENCY_TITLES["connect"],
    "start_delay": "start delay",
}
"""The titles of a campaign's latencies, in page order."""

_SHARES = {**PERCENTILES, "max": 1.0}
_REMARKS = ("premature", "early", "flagged", "uncertain")


def sweep_table(points: Sequence[PointView]) -> Table:
    """Return a table of the conditions with load, failures and voice-to-voice latency."""
    columns = [Column("condition", numeric=False), Column("load", numeric=False)]
    columns += map(Column, ("turns", "failed", "p50", "p95", "p99", "max", "lag, p99"))
    columns.append(Column("remarks", numeric=False))
    rows = []
    for point in points:
        turns = point.metrics.turns
        failed = turns.n_failed
        kinds = "; ".join(f"{kind}: {count}" for kind, count in turns.failed.items())
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                Cell(load_in_words(point.record.stored)),
                Cell(str(turns.n)),
                Cell(str(failed), note=kinds, href=f"{point.link}#failures" if failed and point.link else ""),
                *_percentiles(point, "voice_to_voice", ("p50", "p95", "p99", "max")),
                Cell(number(point.metrics.lag.p99, 1)),
                Cell(", ".join(f"{count} {what}" for what in _REMARKS if (count := getattr(turns, what)))),
            )
        )
    return Table(tuple(columns), tuple(rows), " ".join(_errors(points)))


def _errors(points: Sequence[PointView]) -> Iterator[str]:
    for point in points:
        if point.record.error:
            yield f"Cannot read {point.name}: {point.record.error}."


def point_table(point: PointView) -> Table:
    """Return a table of a condition's latencies, with percentiles linked to the turns at their ranks."""
    columns = [Column("latency, ms", numeric=False)]
    columns += map(Column, ("n", "mean", "p50", "p90", "p95", "p99", "max", "p50 without flagged"))
    columns += map(Column, ("uncertain", "missing"))
    rows = []
    reasons: dict[str, None] = {}
    for name, title in METRIC_TITLES.items():
        latency = point.metrics.latencies[name]
        measured, clear = latency.measured, latency.without_flagged
        if not measured.n:
            continue
        mean = measured["mean"]
        rows.append(
            (
                Cell(title, strong=name == "voice_to_voice"),
                Cell(str(measured.n)),
                Cell(ranged(mean.value, mean.interval)),
                *_percentiles(point, name, tuple(_SHARES)),
                Cell(number(None) if clear.n == measured.n else median_and_n(clear)),
                Cell(str(latency.uncertain)),
                missing_cell(measured),
            )
        )
        for statistic, each in measured.estimates.items():
            if each.reason:
                reasons[f"No {statistic} or no interval for it: {each.reason}."] = None
    drawn = {point.metrics.latencies[name].measured.drawn_as for name in ("voice_to_voice", "first_byte")}
    note = f"Intervals are 95 %, from resamples of {' or '.join(sorted(drawn))}."
    return Table(tuple(columns), tuple(rows), " ".join([note, *reasons]))


def _percentiles(point: PointView, metric: str, statistics: Sequence[str]) -> list[Cell]:
    measured = point.metrics.latencies[metric].measured
    ascending = point.ascending(metric)
    return [
        estimate_cell(
            found,
            strong=name == "p50" and metric == "voice_to_voice",
            href=point.link_to(turn_at(ascending, _SHARES[name])) if found.value is not None else "",
        )
        for name in statistics
        for found in [measured[name]]
    ]


def step_table(points: Sequence[PointView]) -> Table:
    """Return a table of step durations by condition: mean, median and share."""
    names = list(dict.fromkeys(step.part for point in points for step in point.metrics.waterfall))
    columns = [Column("step", numeric=False), Column("condition", numeric=False)]
    columns += map(Column, ("mean, ms", "median, ms", "share of the mean total"))
    rows = [
        (
            Cell(name.replace("_", " ")),
            Cell(point.name, run=point.colour, href=point.link),
            Cell(number(step.mean_ms, 1)),
            Cell(number(step.median_ms, 1)),
            Cell(number(None) if step.share is None else f"{number(100 * step.share, 1)} %"),
        )
        for name in names
        for point in points
        for step in point.metrics.waterfall
        if step.part == name
    ]
    return Table(tuple(columns), tuple(rows))


def stall_table(points: Sequence[PointView]) -> Table:
    """Return a table of each condition's playout stalls by jitter-buffer depth."""
    depths = [stall.buffer_ms for stall in points[0].metrics.stalls] if points else []
    columns = [Column("condition", numeric=False), *(Column(f"{depth} ms") for depth in depths)]
    columns += [Column("delivery rate, median"), Column("p05")]
    rows = []
    for point in points:
        rate = point.metrics.delivery_rate
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                *(
                    Cell(number(stall.per_minute, 1), note=_stalled(stall.ms_per_minute))
                    for stall in point.metrics.stalls
                ),
                Cell(number(rate.median, 1), note=rate.reason),
                Cell(number(rate.p05, 1)),
            )
        )
    return Table(tuple(columns), tuple(rows))


def _stalled(ms: float | None) -> str:
    return "no reply audio" if ms is None else f"{number(ms)} ms per minute"


def cost_table(points: Sequence[PointView]) -> Table | None:
    """Return a table of the cost per minute of conversation; None if the endpoint reports no usage."""
    if not any(point.metrics.cost.minutes for point in points):
        return None
    columns = [Column("condition", numeric=False)]
    columns += map(Column, ("US$ per minute", "tokens per minute", "minutes with usage"))
    rows = []
    for point in points:
        cost = point.metrics.cost
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                Cell(number(cost.usd, 4), note=cost.reason),
                Cell(number(cost.tokens_per_minute)),
                Cell(number(cost.minutes, 1)),
            )
        )
    return Table(tuple(columns), tuple(rows))


def endpointing_chart(costs: Sequence[DetectorCost], points: Sequence[PointView]) -> BarChart | None:
    """Draw the endpointing cost of each detector setting."""
    if not costs:
        return None
    links = {point.name: point.link for point in points}
    flagged = any(
        found.without_flagged.difference.n < found.paired.difference.n
        for each in costs
        for found in [each.cost.headline]
    )
    columns = ("n", "detector, median ms", "manual, median ms", "mean difference", "premature")
    rows = []
    for each in costs:
        cost, paired = each.cost, each.cost.headline.paired
        link = links.get(str(each.stored.name), "")
        cells = [
            Cell(str(paired.difference.n), note=f"{counted(cost.unpaired, 'unpaired turn')}"),
            Cell(number(paired.detector), href=link),
            Cell(number(paired.manual), href=links.get(str(each.manual.name), "")),
            difference_cell(paired.difference, strong=True),
            Cell(str(cost.premature)),
        ]
        if flagged:
            cells.append(difference_cell(cost.headline.without_flagged.difference))
        rows.append((Cell(detector_in_words(each.stored), href=link), paired.difference, cells))
    return difference_chart(
        "detector",
        "milliseconds later than with manual turns",
        (*columns, *(["mean difference without flagged"] if flagged else [])),
        rows,
    )


def definitions_chart(definitions: DefinedLatencies, points: Sequence[PointView]) -> BarChart | None:
    """Draw the difference between each published definition and `OURS`."""
    if not definitions.latencies:
        return None
    link = next((point.link for point in points if point.record.stored.run == definitions.run), "")
    return difference_chart(
        "definition",
        "milliseconds from voice_to_voice",
        ("n", "median, ms", "median difference"),
        [
            (
                Cell(
                    each.definition.name,
                    href=link,
                    note=f"{each.definition.means} ({each.definition.source})",
                ),
                each.difference,
                (
                    Cell(str(each.n), note="; ".join(f"{why}: {n}" for why, n in each.missing.items())),
                    Cell(number(each.median), strong=True),
                    Cell(ranged(each.difference.value, each.difference.interval, signed=True)),
                ),
            )
            for each in definitions.latencies
        ],
    )
