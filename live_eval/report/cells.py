"""Represent tables as data, and format numbers and estimates for their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from live_eval.analysis.statistics.distribution import Distribution
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.score_table import ScoreColumn

__all__ = [
    "DIRECTIONS",
    "NONE",
    "Cell",
    "Column",
    "Table",
    "difference_cell",
    "estimate_cell",
    "interval",
    "median_and_n",
    "missing_cell",
    "number",
    "ranged",
]

NONE = "–"
"""Placeholder for a missing value."""
DIRECTIONS: Mapping[bool | None, tuple[str, str]] = MappingProxyType(
    {True: ("↑", "higher is better"), False: ("↓", "lower is better"), None: ("", "")}
)
"""The arrow for a score and its meaning, by `higher_is_better`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; a page shows the heading and definition of `score` instead, if it is set."""

    label: str
    numeric: bool = True
    score: ScoreColumn | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Args:
        run: Index of the run whose colour marks the cell, or None.
        indent: Depth of the row in a hierarchy.
        note: Additional details, as a tooltip.
        href: Link, relative to the page; empty for none.
        score: Name of a score, of which a page shows the heading and definition.
    """

    text: str
    run: int | None = None
    indent: int = 0
    strong: bool = False
    note: str = ""
    href: str = ""
    score: ScoreColumn | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `note` is displayed below it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    title: str = ""


def number(value: float | None, digits: int = 0, *, signed: bool = False) -> str:
    """Format a number with fixed decimals and a Unicode minus sign; a dash for None."""
    if value is None:
        return NONE
    text = f"{value:+z.{digits}f}" if signed else f"{value:z.{digits}f}"
    return text.replace("-", "−")


def ranged(
    value: float | None,
    interval: Sequence[float] | None,
    digits: int = 0,
    *,
    signed: bool = False,
    unit: str = "",
) -> str:
    """Format a value with its unit and, in parentheses, its interval; a dash for None."""
    text = f"{number(value, digits, signed=signed)}{unit if value is not None else ''}"
    if value is None or interval is None:
        return text
    low, high = (number(end, digits, signed=signed) for end in interval)
    return f"{text} ({low} to {high})"


def interval(estimate: Estimate, digits: int = 0) -> str:
    """Format an interval as ``low to high``; a dash for None."""
    found = estimate.interval
    return NONE if found is None else f"{number(found.low, digits)} to {number(found.high, digits)}"


def median_and_n(values: Distribution) -> str:
    """Format the median and n."""
    return f"{number(values['p50'].value)} (n {values.n})"


def missing_cell(values: Distribution) -> Cell:
    """Return a cell with the number of missing values; a tooltip shows the reasons."""
    return Cell(str(values.n_missing), note="; ".join(f"{why}: {n}" for why, n in values.missing.items()))


def difference_cell(estimate: Estimate, digits: int = 0, *, strong: bool = False) -> Cell:
    """Return a cell with a signed difference and its interval; a tooltip shows n and reasons for gaps."""
    text = ranged(estimate.value, estimate.interval, digits, signed=True)
    return Cell(text, strong=strong, note=f"n {estimate.n} {estimate.reason}".strip())


def estimate_cell(
    estimate: Estimate, digits: int = 0, *, signed: bool = False, strong: bool = False, href: str = ""
) -> Cell:
    """Return a cell with an estimate and its interval; a tooltip shows the reason if one is missing."""
    text = ranged(estimate.value, estimate.interval, digits, signed=signed)
    return Cell(text, strong=strong, note=estimate.reason, href=href)
