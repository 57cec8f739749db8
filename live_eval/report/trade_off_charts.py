"""Charts of a report of several runs: scores against latency, with the Pareto fronts of turns and of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from live_eval.analysis.statistics.intervals import Interval
from live_eval.analysis.trade_offs import RunTradeOff, TradeOff, TradeOffPoint
from live_eval.report.charts import HEIGHT, WIDTH, Axis, AxisTick
from live_eval.report.tables import RunView, number

__all__ = ["FrontTurn", "RunMarker", "TradeOffChart", "TurnCloud", "trade_off_chart"]

_MOST_TURNS = 1_000


@dataclass(frozen=True, slots=True)
class TurnCloud:
    """The turns of a run.

    Args:
        run: Its place among the runs.
        path: SVG path data in a box of 1000 × 400: a dot for each turn.
    """

    run: int
    path: str


@dataclass(frozen=True, slots=True)
class FrontTurn:
    """A turn that no other beats; `across` and `up` in percent from the left and from the bottom."""

    run: int
    key: str
    across: float
    up: float
    label: str


@dataclass(frozen=True, slots=True)
class RunMarker:
    """A run's median latency and mean score.

    Args:
        run: Its place among the runs.
        across: In percent from the left.
        up: In percent from the bottom.
        bars: SVG path data: the intervals, across and up.
        label: Its figures in words.
        on_front: Whether no other run beats it.
    """

    run: int
    across: float
    up: float
    bars: str
    label: str
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffChart:
    """One score against `voice_to_voice`.

    Args:
        score: The score, with its unit and an arrow for its direction.
        clouds: The turns, by run.
        shown: How many turns are drawn; those of a large run are thinned out evenly.
        total: How many there are.
        front_turns: The turns on the front, from the fastest.
        turn_front: SVG path data of their front; empty for a single turn.
        markers: The runs.
        run_front: SVG path data of the runs' front; empty for a single run.
        best: The labels of the runs on the front, from the fastest.
        notes: Runs that are left out, and why.
    """

    score: str
    clouds: tuple[TurnCloud, ...]
    shown: int
    total: int
    front_turns: tuple[FrontTurn, ...]
    turn_front: str
    markers: tuple[RunMarker, ...]
    run_front: str
    best: tuple[str, ...]
    across_ticks: tuple[AxisTick, ...]
    up_ticks: tuple[AxisTick, ...]
    notes: tuple[str, ...]


def trade_off_chart(
    found: TradeOff, runs: Sequence[RunView], keys: Mapping[tuple[int, str], str]
) -> TradeOffChart:
    """Draw a score against latency.

    Args:
        found: The figures.
        runs: The runs, in order.
        keys: The key of each turn on the page, by run and turn.
    """
    across = Axis.around(*_ends([turn.latency_ms for turn in found.turns]))
    up = Axis.between(*_ends([turn.score for turn in found.turns]))
    drawn = _thinned(found.turns)
    best_turns = sorted((turn for turn in found.turns if turn.on_front), key=lambda turn: turn.latency_ms)
    best_runs = sorted((run for run in found.runs if run.on_front), key=lambda run: run.latency.value or 0)
    higher = found.higher_is_better
    return TradeOffChart(
        score=" ".join(part for part in (found.name, found.unit, "↑" if higher else "↓") if part),
        clouds=tuple(
            TurnCloud(
                view.index,
                "".join(
                    f"M{_x(across, turn.latency_ms)} {_y(up, turn.score)}h.01"
                    for turn in drawn
                    if turn.run == view.index
                ),
            )
            for view in runs
        ),
        shown=len(drawn),
        total=len(found.turns),
        front_turns=tuple(
            FrontTurn(
                turn.run,
                keys[turn.run, turn.turn_id],
                across.percent(turn.latency_ms),
                up.percent(turn.score),
                f"{turn.turn_id} of {runs[turn.run].label}: {number(turn.latency_ms)} ms, "
                f"{found.name} {number(turn.score, 2)}",
            )
            for turn in best_turns
        ),
        turn_front=_stairs([(turn.latency_ms, turn.score) for turn in best_turns], across, up),
        markers=tuple(_marker(run, found, runs, across, up) for run in found.runs),
        run_front=_stairs([_point(run) for run in best_runs], across, up),
        best=tuple(runs[run.run].label for run in best_runs),
        across_ticks=across.ticks(),
        up_ticks=up.ticks(),
        notes=found.notes,
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _thinned(turns: Sequence[TradeOffPoint]) -> list[TradeOffPoint]:
    """Return at most `_MOST_TURNS` turns, evenly spaced; those on the front are drawn anyway."""
    if len(turns) <= _MOST_TURNS:
        return list(turns)
    return [turns[index * len(turns) // _MOST_TURNS] for index in range(_MOST_TURNS)]


def _x(axis: Axis, value: float) -> str:
    return f"{WIDTH * axis.percent(value) / 100:.1f}"


def _y(axis: Axis, value: float) -> str:
    return f"{HEIGHT * (1 - axis.percent(value) / 100):.1f}"


def _point(run: RunTradeOff) -> tuple[float, float]:
    assert run.latency.value is not None
    assert run.score.value is not None
    return run.latency.value, run.score.value


def _marker(run: RunTradeOff, found: TradeOff, runs: Sequence[RunView], across: Axis, up: Axis) -> RunMarker:
    latency, score = _point(run)
    bars = ""
    if run.latency.interval is not None:
        low, high = (_x(across, end) for end in _ends_within(run.latency.interval, across))
        bars += f"M{low} {_y(up, score)}H{high}"
    if run.score.interval is not None:
        low, high = (_y(up, end) for end in _ends_within(run.score.interval, up))
        bars += f"M{_x(across, latency)} {low}V{high}"
    return RunMarker(
        run.run,
        across.percent(latency),
        up.percent(score),
        bars,
        f"{runs[run.run].label}: median {number(latency)} ms (n {run.latency.n}), mean {found.name} "
        f"{number(score, 2)} (n {run.score.n})",
        run.on_front,
    )


def _ends_within(found: Interval, axis: Axis) -> tuple[float, float]:
    return max(found.low, axis.low), min(found.high, axis.high)


def _stairs(front: Sequence[tuple[float, float]], across: Axis, up: Axis) -> str:
    """Return the edge of what the points of a front, from the fastest, leave unbeaten."""
    if len(front) < 2:
        return ""
    (latency, score), *rest = front
    pieces = [f"M{_x(across, latency)} {_y(up, score)}"]
    pieces += [f"H{_x(across, latency)}V{_y(up, score)}" for latency, score in rest]
    return "".join(pieces)
