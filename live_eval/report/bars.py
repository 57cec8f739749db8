"""Draw charts whose rows share an axis; each row has bars, marks and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.report.cells import Cell, number, ranged
from live_eval.report.plots import Axis, AxisTick, evenly_spaced

__all__ = ["MOST_ROWS", "Bar", "BarChart", "BarRow", "Mark", "bar", "difference_chart", "waterfall"]

MOST_ROWS = 36
"""The maximum number of turns in a waterfall chart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar along an axis, in percent from the left; `kind` is the style."""

    kind: str
    left: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on an axis, in percent from the left; `kind` is the style."""

    kind: str
    at: float
    title: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a chart."""

    label: Cell
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Rows that share an axis.

    Args:
        what: Noun for a row, such as "turn".
        axis: Quantity on the axis, with unit.
        legend: Each style and its name.
    """

    what: str
    axis: str
    columns: tuple[str, ...]
    rows: tuple[BarRow, ...]
    ticks: tuple[AxisTick, ...]
    zero: float
    legend: tuple[tuple[str, str], ...] = ()


def bar(kind: str, low: float, high: float, axis: Axis, title: str) -> Bar:
    """Return a bar between two values, clipped to the axis."""
    left = axis.percent(max(low, axis.low))
    return Bar(kind, left, max(0.0, axis.percent(min(high, axis.high)) - left), title)


def difference_chart(
    what: str,
    axis_title: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Cell, Estimate, Sequence[Cell]]],
    *,
    unit: str = "ms",
) -> BarChart:
    """Draw differences with intervals.

    Args:
        what: Noun for a row, such as "turn".
        rows: Each row's name, difference in `unit`, and further values.
    """
    ends = [
        end
        for _, found, _ in rows
        if found.value is not None
        for end in (found.value, *(found.interval or ()))
    ]
    axis = Axis.around(min(ends, default=0.0), max(ends, default=0.0))

    def row(label: Cell, found: Estimate, cells: Sequence[Cell]) -> BarRow:
        value, interval = found.value, found.interval
        if value is None:
            return BarRow(label, (), (), tuple(cells))
        title = ranged(value, interval, signed=True, unit=f" {unit}")
        bars = () if interval is None else (bar("interval", *interval, axis, title),)
        return BarRow(label, bars, (Mark("p50", axis.percent(value), title, label.href),), tuple(cells))

    return BarChart(
        what=what,
        axis=axis_title,
        columns=tuple(columns),
        rows=tuple(row(*each) for each in rows),
        ticks=axis.ticks(),
        zero=axis.percent(0),
    )


_STAGES = {
    "endpointing": ("endpointing", "endpointing"),
    "first_byte": ("response", "to the first byte"),
    "voice_to_voice": ("silence", "lead silence"),
}
"""Style and name of each reply stage, by the latency that ends it."""


def waterfall(summary: RunSummary, keys: dict[str, str]) -> BarChart | None:
    """Draw the stages of voice-to-voice latency for turns, fastest first.

    Args:
        keys: Key of each turn on the page.

    Returns:
        At most 36 rows, evenly spaced by rank; None if no turn has a voice-to-voice latency.
    """
    timed = sorted(
        (
            (value, turn)
            for turn in summary.turns
            if (value := turn.milliseconds("voice_to_voice")) is not None and not turn.timing.uncertain
        ),
        key=lambda pair: pair[0],
    )
    if not timed:
        return None
    drawn = [(total, turn, _stages(turn)) for total, turn in evenly_spaced(timed, MOST_ROWS)]
    ends = [end for _, _, stages in drawn for _, *ends in stages for end in ends]
    axis = Axis.around(min(ends, default=0.0), max(ends, default=0.0))
    rows = [
        BarRow(
            Cell(turn.turn_id, href=f"#{keys[turn.turn_id]}"),
            tuple(
                bar(f"s-{style}", start, end, axis, f"{number(end - start)} ms")
                for style, start, end in stages
            ),
            (),
            (Cell(number(total)),),
        )
        for total, turn, stages in drawn
    ]
    shown = f"{len(rows)} of {len(timed)} turns, evenly spaced" if len(rows) < len(timed) else "Turns"
    return BarChart(
        what="turn",
        axis=f"{shown} from the fastest to the slowest; milliseconds after the end of speech",
        columns=("ms",),
        rows=tuple(rows),
        ticks=axis.ticks(),
        zero=axis.percent(0),
        legend=tuple((f"s-{style}", name) for style, name in _STAGES.values()),
    )


def _stages(turn: Observation) -> list[tuple[str, float, float]]:
    """Return a turn's stages; a stage with a missing or out-of-order end is merged with the next stage."""
    ends = [
        (style, value)
        for latency, (style, _) in _STAGES.items()
        if (value := turn.milliseconds(latency)) is not None
    ]
    total = ends[-1][1]
    if total < 0:  # the reply began before the end of speech
        return [("early", total, 0.0)]
    stages: list[tuple[str, float, float]] = []
    at = 0.0
    for style, end in ends:
        if at < end <= total:
            stages.append((style, at, end))
            at = end
    return stages
