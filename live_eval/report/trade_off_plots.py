"""Plot scores against latency, with Pareto fronts of turns and of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from live_eval.analysis.statistics.intervals import Interval
from live_eval.analysis.trade_offs import RunTradeOff, TradeOff
from live_eval.report.cells import Cell, number
from live_eval.report.pages import COLOURS
from live_eval.report.plots import Axis, Dot, Plot, PlotPath, evenly_spaced
from live_eval.report.tables import RunView

__all__ = ["trade_off_plot"]

_MOST_TURNS = 1_000


def trade_off_plot(found: TradeOff, runs: Sequence[RunView], link: Callable[[int, str], str]) -> Plot:
    """Plot a score against `voice_to_voice`, with a large dot per run and a small dot per turn.

    Args:
        link: Function that returns the link to a turn, given the run's index and the turn's ID.
    """
    latencies, scores = zip(*((turn.latency_ms, turn.score) for turn in found.turns), strict=True)
    across, up = Axis.around(min(latencies), max(latencies)), Axis.between(min(scores), max(scores))
    drawn = evenly_spaced(found.turns, _MOST_TURNS)  # turns on the front have dots of their own
    best_turns = sorted((turn for turn in found.turns if turn.on_front), key=lambda turn: turn.latency_ms)
    best_runs = sorted((run for run in found.runs if run.on_front), key=lambda run: run.latency.value or 0)
    clouds = {
        view.index: "".join(
            f"M{across.x(turn.latency_ms)} {up.y(turn.score)}h.01" for turn in drawn if turn.run == view.index
        )
        for view in runs
    }
    paths = [
        *(PlotPath(f"cloud c{run % COLOURS}", path) for run, path in clouds.items()),
        PlotPath(
            "front of-turns", _stairs([(turn.latency_ms, turn.score) for turn in best_turns], across, up)
        ),
        PlotPath("front", _stairs([_point(run) for run in best_runs], across, up)),
        *(PlotPath(f"bars c{run.run % COLOURS}", _intervals(run, across, up)) for run in found.runs),
    ]
    dots = [
        Dot(
            f"dot best c{turn.run % COLOURS}",
            across.percent(turn.latency_ms),
            up.percent(turn.score),
            f"{turn.turn_id} of {runs[turn.run].label}: {number(turn.latency_ms)} ms, "
            f"{found.heading} {number(turn.score, 2)}",
            link(turn.run, turn.turn_id),
        )
        for turn in best_turns
    ]
    best = ", ".join(runs[run.run].label for run in best_runs if len(found.runs) > 1)
    score = " ".join(filter(None, (found.heading, found.unit, "↑" if found.higher_is_better else "↓")))
    thinned = [f"{len(drawn)} of {len(found.turns)} turns are drawn"] if len(drawn) < len(found.turns) else []
    return Plot(
        title=f"{score} against voice to voice{f'; on the front: {best}' if best else ''}",
        paths=tuple(path for path in paths if path.d),
        dots=(*dots, *(_run_dot(run, found, runs, across, up) for run in found.runs)),
        across_ticks=across.ticks(),
        up_ticks=up.ticks(),
        legend=tuple(Cell(view.label, run=view.index) for view in runs if clouds[view.index]),
        note=" ".join(f"{note}." for note in ("Voice to voice in milliseconds", *thinned, *found.notes)),
    )


def _point(run: RunTradeOff) -> tuple[float, float]:
    assert run.latency.value is not None
    assert run.score.value is not None
    return run.latency.value, run.score.value


def _run_dot(run: RunTradeOff, found: TradeOff, runs: Sequence[RunView], across: Axis, up: Axis) -> Dot:
    """Return the dot of a run, at its median latency and mean score."""
    latency, score = _point(run)
    return Dot(
        f"dot run c{run.run % COLOURS}",
        across.percent(latency),
        up.percent(score),
        f"{runs[run.run].label}: median {number(latency)} ms (n {run.latency.n}), mean {found.heading} "
        f"{number(score, 2)} (n {run.score.n})",
    )


def _intervals(run: RunTradeOff, across: Axis, up: Axis) -> str:
    """Return path data for the latency and score intervals of a run."""
    latency, score = _point(run)
    bars = ""
    if run.latency.interval is not None:
        low, high = map(across.x, _clipped(run.latency.interval, across))
        bars += f"M{low} {up.y(score)}H{high}"
    if run.score.interval is not None:
        low, high = map(up.y, _clipped(run.score.interval, up))
        bars += f"M{across.x(latency)} {low}V{high}"
    return bars


def _clipped(found: Interval, axis: Axis) -> tuple[float, float]:
    return max(found.low, axis.low), min(found.high, axis.high)


def _stairs(front: Sequence[tuple[float, float]], across: Axis, up: Axis) -> str:
    """Return path data for a front, from its fastest point; empty for a single point."""
    if len(front) < 2:
        return ""
    (latency, score), *rest = front
    pieces = [f"M{across.x(latency)} {up.y(score)}"]
    pieces += [f"H{across.x(latency)}V{up.y(score)}" for latency, score in rest]
    return "".join(pieces)
