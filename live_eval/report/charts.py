"""The charts of a report: distributions as step curves, the stages of turns, and levels against each other.

Curves are SVG paths that the page stretches. Their labels are HTML text, which keeps its size on a small
screen and is readable for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.analysis.benchmark_columns import BenchmarkColumn
from live_eval.analysis.statistics.intervals import ecdf
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run import RunSummary
from live_eval.analysis.task_levels import PLOTTED, TaskLevels, related_columns

__all__ = [
    "HEIGHT",
    "WIDTH",
    "Axis",
    "AxisTick",
    "Curve",
    "CurveChart",
    "Dot",
    "ScatterChart",
    "Waterfall",
    "WaterfallRow",
    "curve_chart",
    "level_charts",
    "waterfall",
]

WIDTH, HEIGHT = 1000, 400
_MOST_STEPS = 400
_MOST_ROWS = 36


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A label on an axis; `at` in percent from the left."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its ends, and the distance of its ticks."""

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
        """Return the place of a value, in percent from the left."""
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self) -> tuple[AxisTick, ...]:
        """Return the labels along the axis."""
        count = round((self.high - self.low) / self.step)
        values = [self.low + index * self.step for index in range(count + 1)]
        return tuple(
            AxisTick(self.percent(value), f"{round(value, 9):g}".replace("-", "−")) for value in values
        )


@dataclass(frozen=True, slots=True)
class Curve:
    """One step curve.

    Args:
        path: SVG path data in a box of 1000 × 400.
        beyond: Values to the right of the axis's end.
        href: What its label links to; empty for nothing.
    """

    label: str
    colour: int
    path: str
    beyond: int
    href: str = ""


@dataclass(frozen=True, slots=True)
class CurveChart:
    """Distributions over one axis of milliseconds."""

    title: str
    axis: Axis
    curves: tuple[Curve, ...]
    ticks: tuple[AxisTick, ...]
    zero: float


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One turn's time from the end of speech, in percent of the axis.

    Args:
        stages: Name, left edge and width of each stage.
        marker: When the endpoint reported the end of speech, if that was after the reply; or None.
    """

    key: str
    label: str
    stages: tuple[tuple[str, float, float], ...]
    marker: float | None
    total_ms: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Turns from the quickest to the slowest; `of` is their number, of which some may be left out."""

    rows: tuple[WaterfallRow, ...]
    ticks: tuple[AxisTick, ...]
    zero: float
    of: int


@dataclass(frozen=True, slots=True)
class Dot:
    """A point; `across` and `up` in percent from the left and from the bottom."""

    across: float
    up: float
    colour: int
    label: str


@dataclass(frozen=True, slots=True)
class ScatterChart:
    """Two columns against each other, each over its whole scale."""

    across: str
    up: str
    dots: tuple[Dot, ...]
    across_ticks: tuple[AxisTick, ...]
    up_ticks: tuple[AxisTick, ...]


def curve_chart(title: str, series: Sequence[tuple[str, int, Sequence[float], int]]) -> CurveChart | None:
    """Draw empirical distributions.

    Args:
        series: Label, number of the colour, values in milliseconds, and how many turns there are in all:
            with turns that have no value, the curve stays below the top.

    Returns:
        The chart; None if there are no values at all.
    """
    values = sorted(value for _, _, part, _ in series for value in part)
    if not values:
        return None
    # Outliers must not squeeze the rest against the axis; they are counted instead.
    end = values[-1]
    usual = values[min(len(values) - 1, math.ceil(0.98 * len(values)) - 1)]
    axis = Axis.around(values[0], usual * 1.1 if end > 1.5 * usual > 0 else end)
    return CurveChart(
        title=title,
        axis=axis,
        curves=tuple(
            Curve(label, colour, _steps(part, total, axis), sum(value > axis.high for value in part))
            for label, colour, part, total in series
            if part
        ),
        ticks=axis.ticks(),
        zero=axis.percent(0),
    )


def _steps(values: Sequence[float], total: int, axis: Axis) -> str:
    found = ecdf(values, total)
    points = list(zip(found.values.tolist(), found.shares.tolist(), strict=True))
    if len(points) > _MOST_STEPS:
        points = [
            points[round(index * (len(points) - 1) / (_MOST_STEPS - 1))] for index in range(_MOST_STEPS)
        ]
    pieces = [f"M0 {HEIGHT}"]
    for value, share in points:
        if value > axis.high:
            break
        pieces.append(f"H{WIDTH * axis.percent(value) / 100:.1f}V{HEIGHT * (1 - share):.1f}")
    pieces.append(f"H{WIDTH}")
    return "".join(pieces)


def _quarters(column: BenchmarkColumn) -> tuple[AxisTick, ...]:
    assert column.scale is not None
    low, high = column.scale
    return Axis(low, high, (high - low) / 4).ticks()


def waterfall(summary: RunSummary, keys: dict[str, str]) -> Waterfall | None:
    """Draw the stages between the two voices, for turns from the quickest to the slowest.

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
    count = min(_MOST_ROWS, len(timed))
    last = max(1, count - 1)
    chosen = [timed[round(index * (len(timed) - 1) / last)] for index in range(count)]
    edges = [edge for _, turn in chosen for _, start, end in _stages(turn) for edge in (start, end)]
    axis = Axis.around(min(edges, default=0.0), max(edges, default=0.0))
    rows = []
    for total, turn in chosen:
        stages = tuple(
            (name, axis.percent(start), axis.percent(end) - axis.percent(start))
            for name, start, end in _stages(turn)
        )
        said = turn.milliseconds("endpointing")
        marker = axis.percent(said) if said is not None and said > total else None
        rows.append(WaterfallRow(keys[turn.turn_id], turn.turn_id, stages, marker, total))
    return Waterfall(tuple(rows), axis.ticks(), axis.percent(0), len(timed))


def _stages(turn: Observation) -> list[tuple[str, float, float]]:
    """Return the stages of a turn; a stage without a mark, or with one out of order, joins the next."""
    ends = [
        (name, value)
        for name, latency in (
            ("endpointing", "endpointing"),
            ("response", "first_byte"),
            ("silence", "voice_to_voice"),
        )
        if (value := turn.milliseconds(latency)) is not None
    ]
    total = ends[-1][1]
    if total < 0:  # the reply began before the end of speech
        return [("early", total, 0.0)]
    stages: list[tuple[str, float, float]] = []
    at = 0.0
    for name, end in ends:
        if at < end <= total:
            stages.append((name, at, end))
            at = end
    return stages


def level_charts(levels: Sequence[tuple[str, int, TaskLevels]]) -> list[ScatterChart]:
    """Draw the levels against each other as the paper does, with a dot for each vocal attribute.

    Returns:
        A chart for each pair of columns that the paper plots and some run has a correlation of.
    """
    columns = {column.title: column for column in related_columns()}
    charts = []
    for pair in PLOTTED:
        if not columns.keys() >= set(pair):
            continue
        across, up = (columns[title] for title in pair)
        dots = tuple(
            Dot(
                across.along(point.first),
                up.along(point.second),
                colour,
                f"{label}: {point.name}, {across.title} {point.first:.4g}, {up.title} {point.second:.4g}",
            )
            for label, colour, found in levels
            for relation in found.relations
            if relation.unit == "attribute"
            and {relation.first, relation.second} == set(pair)
            and relation.correlation.value is not None
            for point in relation.points
        )
        if dots:
            charts.append(ScatterChart(across.title, up.title, dots, _quarters(across), _quarters(up)))
    return charts
