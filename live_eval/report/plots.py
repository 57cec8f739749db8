"""Draw plots: paths and dots over two axes.

Paths are SVG in a box that the page stretches. Labels are HTML text, so that they remain readable on small
screens and are available to screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from live_eval.analysis.leaderboard_columns import BoardColumn
from live_eval.analysis.statistics.intervals import ecdf
from live_eval.analysis.task_levels import PLOTTED, TaskLevels, related_columns
from live_eval.report.cells import Cell
from live_eval.report.pages import COLOURS

__all__ = [
    "Axis",
    "AxisTick",
    "Dot",
    "Plot",
    "PlotPath",
    "curve_plot",
    "curve_style",
    "evenly_spaced",
    "level_plots",
]

WIDTH, HEIGHT = 1000, 400
"""The size of the coordinate system for paths."""

_MOST_STEPS = 400
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A label on an axis; `at` is in percent from the start of the axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its ends and tick spacing."""

    low: float
    high: float
    step: float

    @classmethod
    def around(cls, smallest: float, largest: float) -> Axis:
        """Return an axis that covers zero and all values."""
        return cls.between(min(0.0, smallest), max(largest, 1.0))

    @classmethod
    def between(cls, smallest: float, largest: float) -> Axis:
        """Return an axis that covers all values."""
        raw = (largest - smallest or 1.0) / 6
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
        low, high = math.floor(smallest / step) * step, math.ceil(largest / step) * step
        return cls(low, high if high > low else low + step, step)

    def percent(self, value: float) -> float:
        """Return a value's position in percent from the start of the axis."""
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self) -> tuple[AxisTick, ...]:
        """Return the labels of the axis."""
        count = round((self.high - self.low) / self.step)
        values = [self.low + index * self.step for index in range(count + 1)]
        return tuple(
            AxisTick(self.percent(value), f"{round(value, 9):g}".replace("-", "−")) for value in values
        )

    def x(self, value: float) -> str:
        """Return the horizontal path coordinate of a value."""
        return f"{WIDTH * self.percent(value) / 100:.1f}"

    def y(self, value: float) -> str:
        """Return the vertical path coordinate of a value."""
        return f"{HEIGHT * (1 - self.percent(value) / 100):.1f}"


@dataclass(frozen=True, slots=True)
class PlotPath:
    """A path; `style` is the CSS class, and `d` is the SVG path data in a 1000 × 400 box."""

    style: str
    d: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A point; `across` and `up` are in percent from the left and bottom, and `style` is the CSS class."""

    style: str
    across: float
    up: float
    title: str
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Paths and dots over two axes.

    Args:
        right_ticks: Labels on the right; if present, they determine the grid.
        legend: Name of each colour (`Cell.run`).
    """

    title: str
    paths: tuple[PlotPath, ...] = ()
    dots: tuple[Dot, ...] = ()
    across_ticks: tuple[AxisTick, ...]
    up_ticks: tuple[AxisTick, ...]
    right_ticks: tuple[AxisTick, ...] = ()
    legend: tuple[Cell, ...] = ()
    note: str = ""


_SHARES = (AxisTick(100, "100 %"), AxisTick(50, "50 %"), AxisTick(0, "0 %"))
_PERCENTILES = (AxisTick(95, "p95"), AxisTick(50, "p50"))


def curve_style(colour: int) -> str:
    """Return the CSS classes of a curve."""
    return f"curve c{colour % COLOURS}"


def evenly_spaced(items: Sequence[_T], most: int) -> list[_T]:
    """Return at most `most` evenly spaced items, including the first and last."""
    count = min(most, len(items))
    last = max(1, count - 1)
    return [items[round(index * (len(items) - 1) / last)] for index in range(count)]


def curve_axis(values: Sequence[float]) -> Axis:
    """Return an axis for distributions, without outliers that would compress the other values."""
    ascending = sorted(values)
    end = ascending[-1]
    usual = ascending[math.ceil(0.98 * len(ascending)) - 1]
    return Axis.around(ascending[0], usual * 1.1 if end > 1.5 * usual > 0 else end)


def curve_plot(
    title: str,
    series: Sequence[tuple[Cell, Sequence[float], int]],
    dots: Callable[[Axis], Iterable[Dot]] | None = None,
) -> Plot | None:
    """Draw empirical distributions in milliseconds.

    Args:
        series: Name (with colour), values and number of turns of each curve. A curve ends below the top if
            turns have no value.
        dots: Function that returns the dots on the curves, given the axis.

    Returns:
        The plot; None without values.
    """
    drawn = [(name, values, total) for name, values, total in series if values]
    if not drawn:
        return None
    axis = curve_axis([value for _, values, _ in drawn for value in values])
    beyond = [sum(value > axis.high for value in values) for _, values, _ in drawn]
    return Plot(
        title=title,
        paths=tuple(
            PlotPath(curve_style(name.run or 0), _steps(values, total, axis)) for name, values, total in drawn
        ),
        dots=tuple(dots(axis)) if dots is not None else (),
        across_ticks=axis.ticks(),
        up_ticks=_SHARES,
        right_ticks=_PERCENTILES,
        legend=tuple(
            replace(name, note=f"{count} beyond the axis" if count else "")
            for (name, _, _), count in zip(drawn, beyond, strict=True)
        ),
    )


def _steps(values: Sequence[float], total: int, axis: Axis) -> str:
    found = ecdf(values, total)
    points = list(zip(found.values.tolist(), found.shares.tolist(), strict=True))
    pieces = [f"M0 {HEIGHT}"]
    for value, share in evenly_spaced(points, _MOST_STEPS):
        if value > axis.high:
            break
        pieces.append(f"H{axis.x(value)}V{HEIGHT * (1 - share):.1f}")
    pieces.append(f"H{WIDTH}")
    return "".join(pieces)


def level_plots(levels: Sequence[tuple[Cell, TaskLevels]]) -> list[Plot]:
    """Plot levels against each other as in the paper, with a dot for each vocal attribute.

    Args:
        levels: Name (with colour) and task levels of each run.

    Returns:
        A plot for each pair of columns that the paper plots and that correlates in at least one run.
    """
    columns = {column.title: column for column in related_columns()}
    plots = []
    for pair in PLOTTED:
        if not columns.keys() >= set(pair):
            continue
        across, up = (columns[title] for title in pair)
        dots = tuple(
            Dot(
                f"dot c{(name.run or 0) % COLOURS}",
                across.along(point.first),
                up.along(point.second),
                f"{name.text}: {point.name}, {across.heading} {point.first:.4g}, "
                f"{up.heading} {point.second:.4g}",
            )
            for name, found in levels
            for relation in found.relations
            if relation.unit == "attribute"
            and {relation.first, relation.second} == set(pair)
            and relation.correlation.value is not None
            for point in relation.points
        )
        if dots:
            title = f"{up.heading} by {across.heading}"
            plots.append(Plot(title=title, dots=dots, across_ticks=_quarters(across), up_ticks=_quarters(up)))
    return plots


def _quarters(column: BoardColumn) -> tuple[AxisTick, ...]:
    assert column.scale is not None
    low, high = column.scale
    return Axis(low, high, (high - low) / 4).ticks()
