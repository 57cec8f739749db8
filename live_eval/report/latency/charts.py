"""Draw a latency campaign's sweep and waterfalls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from live_eval.analysis.latency.waterfall import REPLY_PARTS, waterfall_of
from live_eval.analysis.statistics.distribution import PERCENTILES
from live_eval.report.bars import MOST_ROWS, Bar, BarChart, BarRow, Mark, bar
from live_eval.report.cells import Cell, number
from live_eval.report.latency.point_view import PointView, load_in_words, turn_at
from live_eval.report.plots import Axis, evenly_spaced

__all__ = ["mean_waterfall", "sweep", "turn_waterfall"]

_STEP_NAMES = {
    "dns": "name resolution",
    "tcp": "TCP",
    "tls": "TLS",
    "http": "HTTP",
    "session": "session ready",
    "endpointing": "endpointing",
    "first_byte": "first byte",
    "first_audible": "first audible",
    "transcript": "transcript",
    "complete": "complete",
}


def sweep(points: Sequence[PointView], metric: str) -> BarChart | None:
    """Draw a latency's percentiles for each sweep condition; None if there are no values."""
    drawn = [(point, ascending) for point in points if (ascending := point.ascending(metric))]
    if not drawn:
        return None
    ends = [ascending[at][0] for _, ascending in drawn for at in (0, -1)]
    axis = Axis.around(min(ends), max(ends))
    return BarChart(
        what="condition",
        axis="milliseconds",
        columns=("p50", "p95"),
        rows=tuple(_percentiles(point, ascending, metric, axis) for point, ascending in drawn),
        ticks=axis.ticks(),
        zero=axis.percent(0),
        legend=(
            ("range", "min to max"),
            ("interval", "interval of p50"),
            ("p50", "p50"),
            ("p95", "p90, p95"),
            ("p99", "p99"),
        ),
    )


def _percentiles(point: PointView, ascending: Sequence[tuple[float, str]], metric: str, axis: Axis) -> BarRow:
    measured = point.metrics.latencies[metric].measured
    median = measured["p50"]
    (least, fastest), (most, slowest) = ascending[0], ascending[-1]
    bars = [bar("range", least, most, axis, f"{number(least)} to {number(most)} ms")]
    if median.interval is not None:
        low, high = median.interval
        bars.append(bar("interval", low, high, axis, f"p50: {number(low)} to {number(high)} ms"))
    marks = [
        Mark("end", axis.percent(value), f"{name}: {number(value)} ms, {turn_id}", point.link_to(turn_id))
        for name, value, turn_id in (("min", least, fastest), ("max", most, slowest))
    ]
    marks += [
        Mark(
            name,
            axis.percent(value),
            f"{name}: {number(value)} ms, {turn_at(ascending, share)}",
            point.link_to(turn_at(ascending, share)),
        )
        for name, share in PERCENTILES.items()
        if (value := measured[name].value) is not None
    ]
    return BarRow(
        Cell(point.name, run=point.colour, note=load_in_words(point.record.stored), href=point.link),
        tuple(bars),
        tuple(marks),
        (Cell(number(median.value), strong=True), Cell(number(measured["p95"].value))),
    )


def mean_waterfall(points: Sequence[PointView]) -> BarChart | None:
    """Draw the mean duration of each step by condition; the bars add up to the mean total."""
    drawn = [point for point in points if point.metrics.waterfall]
    if not drawn:
        return None
    steps = [{step.part: step.mean_ms for step in point.metrics.waterfall} for point in drawn]
    axis = _axis_of(steps)
    rows = tuple(
        BarRow(
            Cell(point.name, run=point.colour, note=load_in_words(point.record.stored), href=point.link),
            _stack(parts, axis),
            (),
            (Cell(number(point.metrics.waterfall_total.mean_ms), strong=True),),
        )
        for point, parts in zip(drawn, steps, strict=True)
    )
    return _waterfall("condition", rows, steps, axis)


def turn_waterfall(point: PointView) -> BarChart | None:
    """Draw the steps of up to 36 turns of a condition, evenly spaced from the fastest to the slowest.

    Returns:
        The chart; None if no turn has steps.
    """
    parts = {
        turn.turn_id: {name: ns / 1e6 for name, ns in found.items()}
        for turn in point.record.turns
        if (found := waterfall_of(turn))
    }
    ranked = sorted(parts, key=lambda turn_id: sum(parts[turn_id].values()))
    if not ranked:
        return None
    chosen = evenly_spaced(ranked, MOST_ROWS)
    steps = [parts[turn_id] for turn_id in chosen]
    axis = _axis_of(steps)
    rows = tuple(
        BarRow(
            Cell(turn_id, href=point.link_to(turn_id)),
            _stack(parts[turn_id], axis),
            (),
            (Cell(number(sum(parts[turn_id].values()))),),
        )
        for turn_id in chosen
    )
    return _waterfall("turn", rows, steps, axis)


def _waterfall(
    what: str, rows: tuple[BarRow, ...], steps: Sequence[Mapping[str, float]], axis: Axis
) -> BarChart:
    present = dict.fromkeys(name for each in steps for name in each)
    setup = [name for name in present if name not in REPLY_PARTS]
    ordered = [*setup, *(name for name in REPLY_PARTS if name in present)]
    return BarChart(
        what=what,
        axis="milliseconds of waiting",
        columns=("total, ms",),
        rows=rows,
        ticks=axis.ticks(),
        zero=axis.percent(0),
        legend=tuple((_style(name), _STEP_NAMES.get(name, name)) for name in ordered),
    )


def _axis_of(steps: Iterable[Mapping[str, float]]) -> Axis:
    ends = [end for each in steps for _, start, stop in _placed(each) for end in (start, stop)]
    return Axis.around(min(ends), max(ends))


def _placed(parts: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Place steps one after another, and return their starts and ends; a negative step extends backwards."""
    placed, at = [], 0.0
    for name, ms in parts.items():
        placed.append((name, at, at + ms))
        at += ms
    return placed


def _stack(parts: Mapping[str, float], axis: Axis) -> tuple[Bar, ...]:
    return tuple(
        bar(
            _style(name) if start <= stop else "s-early",
            min(start, stop),
            max(start, stop),
            axis,
            f"{_STEP_NAMES.get(name, name)}: {number(stop - start, 1)} ms",
        )
        for name, start, stop in _placed(parts)
    )


def _style(name: str) -> str:
    return f"p-{name}" if name in _STEP_NAMES else "p-setup"
