"""Distributions of a campaign: step curves whose steps link to their turns, and tails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from live_eval.report.charts import HEIGHT, WIDTH, Axis, AxisTick, Curve, CurveChart, curve_chart
from live_eval.report.latency.points import PointView
from live_eval.report.tables import number

__all__ = ["TailChart", "TurnChart", "TurnDot", "tail_chart", "turn_chart"]

_MOST_DOTS = 60
_SLOWEST = 10


@dataclass(frozen=True, slots=True)
class TurnDot:
    """A turn on its curve; `across` and `up` in percent from the left and from the bottom."""

    across: float
    up: float
    colour: int
    label: str
    href: str


@dataclass(frozen=True, slots=True)
class TurnChart:
    """Distributions of one latency, with turns on the curves."""

    chart: CurveChart
    dots: tuple[TurnDot, ...]


@dataclass(frozen=True, slots=True)
class TailChart:
    """Latency by percentile: each step to the right leaves a tenth of the turns beyond it."""

    title: str
    curves: tuple[Curve, ...]
    across_ticks: tuple[AxisTick, ...]
    up_ticks: tuple[AxisTick, ...]


def turn_chart(title: str, metric: str, points: Sequence[PointView], colours: int) -> TurnChart | None:
    """Draw the distribution of a latency at each point.

    A curve ends below the top if turns have no value: they failed, or the endpoint does not show this step.

    Args:
        title: What the chart shows.
        metric: The latency.
        points: The points.
        colours: How many colours the page has.

    Returns:
        The chart; None if no turn has a value.
    """
    values = {point.name: point.ascending(metric) for point in points}
    totals = {point.name: _total(point, metric) for point in points}
    chart = curve_chart(
        title,
        [
            (
                point.name,
                (point.colour or 0) % colours,
                [ms for ms, _ in values[point.name]],
                totals[point.name],
            )
            for point in points
        ],
    )
    if chart is None:
        return None
    drawn = [point for point in points if values[point.name]]
    curves = [replace(curve, href=point.link) for curve, point in zip(chart.curves, drawn, strict=True)]
    dots = [
        TurnDot(
            chart.axis.percent(ms),
            100 * (rank + 1) / totals[point.name],
            (point.colour or 0) % colours,
            f"{turn_id}, {point.name}: {number(ms)} ms",
            point.link_to(turn_id),
        )
        for point in drawn
        if point.link
        for rank, (ms, turn_id) in _spread(values[point.name])
        if ms <= chart.axis.high
    ]
    return TurnChart(replace(chart, curves=tuple(curves)), tuple(dots))


def _total(point: PointView, metric: str) -> int:
    figures = point.figures["latencies"][metric]
    return int(figures["n"] + figures["unanswered"])


def _spread(values: Sequence[tuple[float, str]]) -> list[tuple[int, tuple[float, str]]]:
    """Return at most 60 turns with their ranks: the slowest, and the others evenly spaced."""
    count = len(values)
    if count <= _MOST_DOTS:
        ranks = set(range(count))
    else:
        even = _MOST_DOTS - _SLOWEST
        ranks = {round(index * (count - 1) / (even - 1)) for index in range(even)}
        ranks |= set(range(count - _SLOWEST, count))
    return [(rank, values[rank]) for rank in sorted(ranks)]


def tail_chart(title: str, metric: str, points: Sequence[PointView], colours: int) -> TailChart | None:
    """Draw the tail of a latency at each point, as HdrHistogram plots it: percentiles by their nines.

    Args:
        title: What the chart shows.
        metric: The latency.
        points: The points.
        colours: How many colours the page has.

    Returns:
        The chart; None if no turn has a value.
    """
    tails = [(point, tail) for point in points if (tail := point.figures["latencies"][metric]["tail"])]
    if not tails:
        return None
    nines = max(_nines(percentile) for _, tail in tails for percentile, _ in tail if percentile < 100)
    end = max(1.0, nines * 1.08)  # room for the greatest value, whose percentile is 100
    up = Axis.around(min(tail[0][1] for _, tail in tails), max(tail[-1][1] for _, tail in tails))
    marked = [each for each in (0, 50, 90, 99, 99.9, 99.99) if _nines(each) <= end]
    return TailChart(
        title=title,
        curves=tuple(
            Curve(point.name, (point.colour or 0) % colours, _rising(tail, up, end), 0, point.link)
            for point, tail in tails
        ),
        across_ticks=tuple(AxisTick(100 * _nines(each) / end, f"p{each:g}") for each in marked),
        up_ticks=up.ticks(),
    )


def _nines(percentile: float) -> float:
    return math.log10(100 / (100 - percentile))


def _rising(tail: Sequence[Sequence[float]], up: Axis, end: float) -> str:
    places = [
        (WIDTH * (min(_nines(percentile), end) / end if percentile < 100 else 1), up.percent(ms))
        for percentile, ms in tail
    ]
    (first_x, first_y), *rest = [(x, HEIGHT * (1 - y / 100)) for x, y in places]
    return f"M{first_x:.1f} {first_y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
