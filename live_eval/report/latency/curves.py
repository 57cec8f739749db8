"""Draw the latency distributions of a campaign: step curves with links to turns, and tails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from live_eval.analysis.latency.campaign_latencies import tail
from live_eval.report.cells import Cell, number
from live_eval.report.latency.point_view import PointView
from live_eval.report.pages import COLOURS
from live_eval.report.plots import HEIGHT, WIDTH, Axis, AxisTick, Dot, Plot, PlotPath, curve_plot, curve_style

__all__ = ["latency_curves", "latency_tails"]

_MOST_DOTS = 60
_SLOWEST = 10


def latency_curves(title: str, metric: str, points: Sequence[PointView]) -> Plot | None:
    """Draw the distribution of a latency for each condition, with dots that link to turns.

    A curve ends below the top if turns have no value, because they failed or the endpoint does not report the
    step.

    Returns:
        The plot; None if no turn has a value.
    """

    def dots(axis: Axis) -> Iterator[Dot]:
        for point in points:
            values = point.ascending(metric)
            for rank, (ms, turn_id) in _spread(values) if point.link else ():
                if ms <= axis.high:
                    yield Dot(
                        f"turn-dot c{(point.colour or 0) % COLOURS}",
                        axis.percent(ms),
                        100 * (rank + 1) / _total(point, metric),
                        f"{turn_id}, {point.name}: {number(ms)} ms",
                        point.link_to(turn_id),
                    )

    series = [
        (_name(point), [ms for ms, _ in point.ascending(metric)], _total(point, metric)) for point in points
    ]
    return curve_plot(title, series, dots)


def _name(point: PointView) -> Cell:
    return Cell(point.name, run=point.colour or 0, href=point.link)


def _total(point: PointView, metric: str) -> int:
    latency = point.metrics.latencies[metric]
    return latency.measured.n + latency.unanswered


def _spread(values: Sequence[tuple[float, str]]) -> list[tuple[int, tuple[float, str]]]:
    """Return up to 60 turns with their ranks: the slowest turns, and others at even distances."""
    count = len(values)
    if count <= _MOST_DOTS:
        return list(enumerate(values))
    even = _MOST_DOTS - _SLOWEST
    ranks = {round(index * (count - 1) / (even - 1)) for index in range(even)}
    ranks |= set(range(count - _SLOWEST, count))
    return [(rank, values[rank]) for rank in sorted(ranks)]


def latency_tails(title: str, metric: str, points: Sequence[PointView]) -> Plot | None:
    """Draw a latency by percentile on a logarithmic axis (90 %, 99 %, 99.9 %, …), as HdrHistogram does.

    Returns:
        The plot; None if no turn has a value.
    """
    tails = [
        (point, values)
        for point in points
        if (values := tail(point.metrics.latencies[metric].measured.values))
    ]
    if not tails:
        return None
    nines = max(_nines(percentile) for _, values in tails for percentile, _ in values if percentile < 100)
    end = max(1.0, nines * 1.08)  # leave space for the maximum, whose percentile is 100
    up = Axis.around(min(values[0][1] for _, values in tails), max(values[-1][1] for _, values in tails))
    marked = [each for each in (0, 50, 90, 99, 99.9, 99.99) if _nines(each) <= end]
    return Plot(
        title=title,
        paths=tuple(
            PlotPath(curve_style(point.colour or 0), _rising(values, up, end)) for point, values in tails
        ),
        across_ticks=tuple(AxisTick(100 * _nines(each) / end, f"p{each:g}") for each in marked),
        up_ticks=up.ticks(),
        legend=tuple(_name(point) for point, _ in tails),
    )


def _nines(percentile: float) -> float:
    return math.log10(100 / (100 - percentile))


def _rising(values: Sequence[Sequence[float]], up: Axis, end: float) -> str:
    places = [
        (WIDTH * (min(_nines(percentile), end) / end if percentile < 100 else 1), up.percent(ms))
        for percentile, ms in values
    ]
    (first_x, first_y), *rest = [(x, HEIGHT * (1 - y / 100)) for x, y in places]
    return f"M{first_x:.1f} {first_y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
