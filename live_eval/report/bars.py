"""Rows of bars and marks along one axis: what a row is called, what is drawn, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.report.charts import Axis, AxisTick
from live_eval.report.tables import Cell, number

__all__ = ["Bar", "BarChart", "BarRow", "Mark", "bar", "difference_chart"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of an axis, in percent from the left; `kind` is its style."""

    kind: str
    left: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on an axis, in percent from the left; `kind` is its style."""

    kind: str
    at: float
    title: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row: its name, what is drawn, and its figures."""

    label: Cell
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Rows over one axis.

    Args:
        what: What a row is.
        axis: What is drawn, in words.
        columns: The headings of the figures.
        legend: The style and the name of what is drawn.
    """

    what: str
    axis: str
    columns: tuple[str, ...]
    rows: tuple[BarRow, ...]
    ticks: tuple[AxisTick, ...]
    zero: float
    legend: tuple[tuple[str, str], ...] = ()


def bar(kind: str, low: float, high: float, axis: Axis, title: str) -> Bar:
    """Return a bar between two values, cut at the ends of the axis."""
    left = axis.percent(max(low, axis.low))
    return Bar(kind, left, max(0.0, axis.percent(min(high, axis.high)) - left), title)


def difference_chart(
    what: str,
    axis_words: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Cell, float | None, Sequence[float] | None, Sequence[Cell]]],
    *,
    unit: str = "ms",
) -> BarChart:
    """Draw differences with their intervals.

    Args:
        what: What a row is.
        axis_words: What the differences are from.
        columns: The headings of the figures.
        rows: For each its name, difference and interval in `unit`, and further figures.
        unit: Of the differences.
    """
    ends = [end for _, value, interval, _ in rows if value is not None for end in (value, *(interval or ()))]
    axis = Axis.around(min(ends, default=0.0), max(ends, default=0.0))
    return BarChart(
        what=what,
        axis=axis_words,
        columns=tuple(columns),
        rows=tuple(
            _difference(label, value, interval, cells, axis, unit) for label, value, interval, cells in rows
        ),
        ticks=axis.ticks(),
        zero=axis.percent(0),
    )


def _difference(
    label: Cell,
    value: float | None,
    interval: Sequence[float] | None,
    cells: Sequence[Any],
    axis: Axis,
    unit: str,
) -> BarRow:
    if value is None:
        return BarRow(label, (), (), tuple(cells))
    words = f"{number(value, signed=True)} {unit}"
    bars: tuple[Bar, ...] = ()
    if interval is not None:
        low, high = interval
        words += f" ({number(low, signed=True)} to {number(high, signed=True)})"
        bars = (bar("interval", low, high, axis, words),)
    return BarRow(label, bars, (Mark("p50", axis.percent(value), words, label.href),), tuple(cells))
