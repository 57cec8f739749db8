"""Plot scores against latency, and find the runs and turns on the Pareto front.

A point is on the front if no other point is at least as fast and at least as good, and better in one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from live_eval.analysis.comparison.run_comparison import latencies_differ
from live_eval.analysis.comparison.series import ComparedRun
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.latencies import has_uncertain_start
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.summary.score_table import ScoreSummary

__all__ = [
    "LATENCY",
    "RunTradeOff",
    "TradeOff",
    "TradeOffPoint",
    "main_trade_offs",
    "pareto_front",
    "trade_offs",
]

LATENCY = "voice_to_voice"
"""The latency on the other axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTradeOff:
    """A run's median latency in milliseconds and mean score, with intervals.

    Args:
        run: Index of the run.
        on_front: Whether the run is on the Pareto front of the runs.
    """

    run: int
    latency: Estimate
    score: Estimate
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOffPoint:
    """A turn with a latency and a score.

    Args:
        run: Index of the run.
        on_front: Whether the turn is on the Pareto front of the turns of all runs.
    """

    run: int
    turn_id: str
    latency_ms: float
    score: float
    on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """The trade-off between a score and the latency `LATENCY`.

    Args:
        name: Name of the score.
        heading: Short name for display.
        higher_is_better: Better direction.
        runs: Runs with both values.
        turns: Turns of these runs with both values.
        notes: Excluded runs, with reasons.
    """

    name: str
    heading: str
    unit: str
    higher_is_better: bool
    runs: tuple[RunTradeOff, ...]
    turns: tuple[TradeOffPoint, ...]
    notes: tuple[str, ...]

    def as_json(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return the runs as printed by ``live-eval report --format json``; its keys are stable."""
        return {
            "score": self.name,
            "runs": [
                {
                    "label": labels[each.run],
                    "latency_ms": each.latency.as_json(3),
                    "score": each.score.as_json(),
                    "on_front": each.on_front,
                }
                for each in self.runs
            ],
            "notes": list(self.notes),
        }


def pareto_front(points: Sequence[tuple[float, float]], *, higher_is_better: bool = True) -> set[int]:
    """Return the indices of the (latency, score) points on the front; lower latency is better.

    >>> sorted(pareto_front([(100, 3.0), (200, 2.0), (300, 4.0)]))
    [0, 2]
    """
    sign = 1 if higher_is_better else -1
    latencies, scores = np.asarray(points, np.float64).reshape(-1, 2).T
    front: list[int] = []
    for place in np.lexsort((-sign * scores, latencies)).tolist():
        latency, score = points[place]
        if not front or sign * score > sign * points[front[-1]][1] or points[front[-1]] == (latency, score):
            front.append(place)
    return set(front)


def trade_offs(
    runs: Sequence[tuple[ComparedRun, RunSummary]], only: Collection[str] | None = None
) -> list[TradeOff]:
    """Return the trade-off between each directional score and `LATENCY`, over comparable runs.

    A run is excluded if its latencies are not comparable with the first run's (different turn mode or
    definitions), or if a different version of the judge scored it. With `only`, the other scores are omitted.
    """
    scored = dict.fromkeys(name for _, summary in runs for name in summary.scores)
    names = [name for name in scored if only is None or name in only]
    found = (_trade_off(name, runs) for name in names)
    return [each for each in found if each is not None and each.turns]


def main_trade_offs(runs: Sequence[tuple[ComparedRun, RunSummary]]) -> list[TradeOff]:
    """Return the `trade_offs` to display: all of them, or only those of the main scores for a single run."""
    main = {each.column.name for each in runs[0][1].main_scores}
    return trade_offs(runs, only=None if len(runs) > 1 else main)


def _trade_off(name: str, runs: Sequence[tuple[ComparedRun, RunSummary]]) -> TradeOff | None:
    scored = [
        (place, run, summary, summary.scores[name])
        for place, (run, summary) in enumerate(runs)
        if name in summary.scores and summary.scores[name].n
    ]
    if not scored or scored[0][3].column.higher_is_better is None:
        return None
    _, first, _, of_first = scored[0]
    column = of_first.column
    notes: list[str] = []
    medians: list[tuple[int, Estimate, Estimate]] = []
    values: list[tuple[int, str, float, float]] = []
    for place, run, summary, score in scored:
        why = _incomparable(first, of_first, run, score)
        if why:
            notes.append(f"{run.name} is excluded: {why}")
            continue
        median = summary.latencies[LATENCY].measured["p50"]
        if median.value is not None and score.mean.value is not None:
            medians.append((place, median, score.mean))
        values += [(place, turn.turn_id, *pair) for turn, pair in _pairs(summary, score)]
    higher = bool(column.higher_is_better)
    best_runs = pareto_front([(_value(x), _value(y)) for _, x, y in medians], higher_is_better=higher)
    best_turns = pareto_front([(x, y) for _, _, x, y in values], higher_is_better=higher)
    return TradeOff(
        name=name,
        heading=column.heading,
        unit=column.unit,
        higher_is_better=higher,
        runs=tuple(
            RunTradeOff(run=place, latency=x, score=y, on_front=at in best_runs)
            for at, (place, x, y) in enumerate(medians)
        ),
        turns=tuple(
            TradeOffPoint(run=place, turn_id=turn_id, latency_ms=x, score=y, on_front=at in best_turns)
            for at, (place, turn_id, x, y) in enumerate(values)
        ),
        notes=tuple(notes),
    )


def _incomparable(first: ComparedRun, mine: ScoreSummary, other: ComparedRun, theirs: ScoreSummary) -> str:
    """Return the reason why a run is not comparable with the first run; empty if it is."""
    if mine.column.version != theirs.column.version:
        return (
            f"it was scored by version {theirs.column.version} of {mine.column.judge}, and {first.name} by "
            f"version {mine.column.version}"
        )
    return latencies_differ(first, other)


def _pairs(summary: RunSummary, score: ScoreSummary) -> Iterator[tuple[Observation, tuple[float, float]]]:
    for turn, value in summary.table.scored(summary.turns, score.column):
        latency = turn.milliseconds(LATENCY)
        if latency is not None and not has_uncertain_start(turn.timing, LATENCY):
            yield turn, (latency, value)


def _value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value
