"""The tables of a latency campaign's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from live_eval.report.bars import BarChart, difference_chart
from live_eval.report.latency.points import PERCENTILES, PointView, detector_in_words, load_in_words, turn_at
from live_eval.report.tables import Cell, Column, Table, number, ranged
from live_eval.text.wording import counted

__all__ = [
    "METRIC_TITLES",
    "assert_table",
    "cost_table",
    "definitions_chart",
    "endpointing_chart",
    "point_table",
    "stall_table",
    "step_table",
    "sweep_table",
]

METRIC_TITLES = {
    "voice_to_voice": "voice to voice",
    "voice_to_voice_from_intended": "voice to voice, from intended start",
    "first_byte": "first byte",
    "first_byte_from_intended": "first byte, from intended start",
    "endpointing": "endpointing",
    "lead_silence": "lead silence",
    "transcript": "transcript",
    "complete": "complete",
    "connect": "connect",
    "start_delay": "start delay",
}
"""The latencies of a campaign in page order."""

_SHARES = {**PERCENTILES, "max_ms": 1.0}
_REMARKS = ("premature", "early", "flagged", "uncertain")


def sweep_table(points: Sequence[PointView]) -> Table:
    """Return the conditions with their load, failures and voice-to-voice latency."""
    columns = [Column("condition", numeric=False), Column("load", numeric=False)]
    columns += map(Column, ("turns", "failed", "p50", "p95", "p99", "max", "lag, p99"))
    columns.append(Column("remarks", numeric=False))
    rows = []
    for point in points:
        turns, lag = point.figures["turns"], point.figures["lag_ms"]
        failed = sum(turns["failed"].values())
        kinds = "; ".join(f"{kind}: {count}" for kind, count in turns["failed"].items())
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                Cell(load_in_words(point.figures)),
                Cell(str(turns["n"])),
                Cell(str(failed), note=kinds, href=f"{point.link}#failures" if failed and point.link else ""),
                *_percentiles(point, "voice_to_voice", ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
                Cell(number(lag["p99"], 1)),
                Cell(", ".join(f"{turns[what]} {what}" for what in _REMARKS if turns[what])),
            )
        )
    return Table(tuple(columns), tuple(rows), " ".join(_errors(points)))


def _errors(points: Sequence[PointView]) -> Iterator[str]:
    for point in points:
        if point.record.error:
            yield f"{point.name} cannot be read: {point.record.error}."


def point_table(point: PointView) -> Table:
    """Return every latency of a condition; a percentile links to the turn at its rank."""
    columns = [Column("latency, ms", numeric=False)]
    columns += map(Column, ("n", "mean", "p50", "p90", "p95", "p99", "max", "p50 without flagged"))
    columns += map(Column, ("uncertain", "missing"))
    rows = []
    reasons: dict[str, None] = {}
    for name, title in METRIC_TITLES.items():
        figures = point.figures["latencies"][name]
        if not figures["n"]:
            continue
        missing = "; ".join(f"{reason}: {count}" for reason, count in figures["missing"].items())
        clear = figures["without_flagged"]
        rows.append(
            (
                Cell(title, strong=name == "voice_to_voice"),
                Cell(str(figures["n"])),
                Cell(ranged(figures["mean_ms"], figures["intervals"]["mean_ms"])),
                *_percentiles(point, name, tuple(_SHARES)),
                Cell(
                    number(None) if clear["n"] == figures["n"] else f"{number(clear['p50'])} (n {clear['n']})"
                ),
                Cell(str(figures["uncertain"])),
                Cell(str(sum(figures["missing"].values())), note=missing),
            )
        )
        for key, reason in figures["reason"].items():
            reasons[f"No {key.removesuffix('_ms')} or no interval of it: {reason}."] = None
    drawn = {point.figures["latencies"][name]["resampled"] for name in ("voice_to_voice", "first_byte")}
    note = f"Intervals are 95 %, from resamples of {' or '.join(sorted(drawn))}."
    return Table(tuple(columns), tuple(rows), " ".join([note, *reasons]))


def _percentiles(point: PointView, metric: str, keys: Sequence[str]) -> list[Cell]:
    figures = point.figures["latencies"][metric]
    ascending = point.ascending(metric)
    return [
        Cell(
            ranged(figures[key], figures["intervals"].get(key)),
            strong=key == "p50_ms" and metric == "voice_to_voice",
            note=figures["reason"].get(key, ""),
            href=point.link_to(turn_at(ascending, _SHARES[key])) if figures[key] is not None else "",
        )
        for key in keys
    ]


def step_table(points: Sequence[PointView]) -> Table:
    """Return the duration of each step for each condition: mean, median and share."""
    names = list(dict.fromkeys(part["part"] for point in points for part in point.figures["waterfall"]))
    columns = [Column("step", numeric=False), Column("condition", numeric=False)]
    columns += map(Column, ("mean, ms", "median, ms", "share of the mean total"))
    rows = [
        (
            Cell(name.replace("_", " ")),
            Cell(point.name, run=point.colour, href=point.link),
            Cell(number(part["mean_ms"], 1)),
            Cell(number(part["median_ms"], 1)),
            Cell(number(None) if part["share"] is None else f"{number(100 * part['share'], 1)} %"),
        )
        for name in names
        for point in points
        for part in point.figures["waterfall"]
        if part["part"] == name
    ]
    return Table(tuple(columns), tuple(rows))


def stall_table(points: Sequence[PointView]) -> Table:
    """Return the playout stalls for each condition, by jitter-buffer depth."""
    depths = [stall["buffer_ms"] for stall in points[0].figures["stalls"]] if points else []
    columns = [Column("condition", numeric=False), *(Column(f"{depth} ms") for depth in depths)]
    columns += [Column("delivery rate, median"), Column("p05")]
    rows = []
    for point in points:
        rate = point.figures["delivery_rate"]
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                *(
                    Cell(number(stall["per_minute"], 1), note=_stalled(stall["ms_per_minute"]))
                    for stall in point.figures["stalls"]
                ),
                Cell(number(rate["median"], 1), note=rate["reason"]),
                Cell(number(rate["p05"], 1)),
            )
        )
    return Table(tuple(columns), tuple(rows))


def _stalled(ms: float | None) -> str:
    return "no reply audio" if ms is None else f"{number(ms)} ms per minute"


def cost_table(points: Sequence[PointView]) -> Table | None:
    """Return the cost per minute of conversation; None if the endpoint reports no usage."""
    if not any(point.figures["cost_per_minute"]["minutes"] for point in points):
        return None
    columns = [Column("condition", numeric=False)]
    columns += map(Column, ("US$ per minute", "tokens per minute", "minutes with usage"))
    rows = []
    for point in points:
        cost = point.figures["cost_per_minute"]
        rows.append(
            (
                Cell(point.name, run=point.colour, href=point.link),
                Cell(number(cost["usd"], 4), note=cost["reason"]),
                Cell(number(cost["tokens_per_minute"])),
                Cell(number(cost["minutes"], 1)),
            )
        )
    return Table(tuple(columns), tuple(rows))


def endpointing_chart(summary: Mapping[str, Any], points: Sequence[PointView]) -> BarChart | None:
    """Draw the endpointing cost of each detector."""
    costs = summary["endpointing_cost"]
    if not costs:
        return None
    links = {point.name: point.link for point in points}
    flagged = any(cost["without_flagged"]["n"] < cost["n"] for cost in costs)
    columns = ("n", "detector, median ms", "manual, median ms", "mean difference", "premature")
    return difference_chart(
        "detector",
        "milliseconds later than with manual turns",
        (*columns, *(["mean difference without flagged"] if flagged else [])),
        [
            (
                Cell(detector_in_words(cost), href=links.get(cost["name"], "")),
                cost["difference_ms"],
                cost["interval_ms"],
                (
                    Cell(str(cost["n"]), note=f"{counted(cost['unpaired'], 'turn')} without a partner"),
                    Cell(number(cost["detector_ms"]), href=links.get(cost["name"], "")),
                    Cell(number(cost["manual_ms"]), href=links.get(cost["manual"], "")),
                    _difference(cost, strong=True),
                    Cell(str(cost["premature"])),
                    *([_difference(cost["without_flagged"])] if flagged else []),
                ),
            )
            for cost in costs
        ],
    )


def _difference(paired: Mapping[str, Any], *, strong: bool = False) -> Cell:
    words = ranged(paired["difference_ms"], paired["interval_ms"], signed=True)
    return Cell(words, strong=strong, note=f"n {paired['n']} {paired['reason']}".strip())


def definitions_chart(summary: Mapping[str, Any], points: Sequence[PointView]) -> BarChart | None:
    """Draw the difference between each published definition and ours."""
    links = {str(point.figures["run"]): point.link for point in points}
    rows = summary["definitions"]
    if not rows:
        return None
    return difference_chart(
        "definition",
        "milliseconds from voice_to_voice",
        ("n", "median, ms", "median difference"),
        [
            (
                Cell(row["name"], href=links.get(str(row["run"]), ""), note=row["source"]),
                row["difference_ms"],
                row["interval_ms"],
                (
                    Cell(str(row["n"]), note="; ".join(f"{why}: {n}" for why, n in row["missing"].items())),
                    Cell(number(row["median_ms"]), strong=True),
                    Cell(ranged(row["difference_ms"], row["interval_ms"], signed=True)),
                ),
            )
            for row in rows
        ],
    )


def assert_table(summary: Mapping[str, Any]) -> Table:
    """Return the campaign's assertions and their results."""
    columns = [Column(name, numeric=False) for name in ("assertion", "condition", "holds")]
    columns += [Column("n"), Column("value, ms"), Column("error bar, ms"), Column("", numeric=False)]
    rows = [
        (
            Cell(each["expression"]),
            Cell(each["point"]),
            Cell("yes" if each["holds"] else "no", strong=not each["holds"]),
            Cell(str(each["n"])),
            Cell(ranged(each["value_ms"], each["interval_ms"]), strong=True),
            Cell(number(each["error_bar_ms"], 1)),
            Cell(each["reason"]),
        )
        for each in summary["asserts"]
    ]
    return Table(tuple(columns), tuple(rows))
