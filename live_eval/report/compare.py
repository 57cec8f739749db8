"""Runs held against the first one: paired by case, resampled by script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from live_eval.statistics import Estimate, paired_difference
from live_eval.summary import LATENCIES, RunSummary, ScoreColumn, ScoreTable, TurnFacts

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs between two runs: the mean of ``other − first`` over the cases that both have.

    Args:
        first: Name of the run that is the yardstick.
        other: Name of the other run.
        latencies: Differences in milliseconds, by latency; empty where they may not be compared.
        scores: Differences, by score; without those whose judges' versions differ.
        notes: What may not be compared, and why.
    """

    first: str
    other: str
    latencies: Mapping[str, Estimate]
    scores: Mapping[str, Estimate]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "first": self.first,
            "other": self.other,
            "latency_ms": {name: _json(estimate) for name, estimate in self.latencies.items()},
            "scores": {name: _json(estimate) for name, estimate in self.scores.items()},
            "notes": list(self.notes),
        }


def compare(first: RunSummary, other: RunSummary, names: tuple[str, str] | None = None) -> Comparison:
    """Compare two runs.

    Args:
        first: The yardstick.
        other: The run to hold against it.
        names: What to call them; by their folders where None.
    """
    before = {(turn.case_id, turn.repeat): turn for turn in first.turns}
    pairs = [(before[key], turn) for turn in other.turns if (key := (turn.case_id, turn.repeat)) in before]
    notes: list[str] = []
    modes = first.facts.turn_mode, other.facts.turn_mode
    latencies: dict[str, Estimate] = {}
    if modes[0] != modes[1]:
        notes.append(
            f"latencies are not compared: the user's turns were ended by {modes[0]} in the one and by "
            f"{modes[1]} in the other"
        )
    elif first.facts.comparable != other.facts.comparable:
        notes.append("latencies are not compared: only one of the endpoints is realtime")
    else:
        latencies = {name: _difference(pairs, _latency_of(name), _latency_of(name)) for name in LATENCIES}
    scores: dict[str, Estimate] = {}
    ours = {column.name: column for column in first.table.columns}
    for column in other.table.columns:
        mine = ours.get(column.name)
        if mine is None:
            continue
        if mine.version != column.version:
            notes.append(
                f"{column.name} is not compared: judged by version {mine.version} in the one and by "
                f"{column.version} in the other"
            )
            continue
        scores[column.name] = _difference(pairs, _score_of(first.table, mine), _score_of(other.table, column))
    if not pairs:
        notes.append("the runs have no case in common")
    first_name, other_name = names or (first.facts.name, other.facts.name)
    return Comparison(
        first=first_name, other=other_name, latencies=latencies, scores=scores, notes=tuple(notes)
    )


def _latency_of(name: str) -> Callable[[TurnFacts], float | None]:
    def value(turn: TurnFacts) -> float | None:
        return None if turn.timing.uncertain else turn.milliseconds(name)

    return value


def _score_of(table: ScoreTable, column: ScoreColumn) -> Callable[[TurnFacts], float | None]:
    def value(turn: TurnFacts) -> float | None:
        return table.cell(turn.turn_id, column).value

    return value


def _difference(
    pairs: list[tuple[TurnFacts, TurnFacts]],
    of_first: Callable[[TurnFacts], float | None],
    of_other: Callable[[TurnFacts], float | None],
) -> Estimate:
    one: list[float] = []
    two: list[float] = []
    scripts: list[str] = []
    for first, other in pairs:
        if not (first.captured and other.captured):
            continue
        a, b = of_first(first), of_other(other)
        if a is not None and b is not None:
            one.append(a)
            two.append(b)
            scripts.append(first.script_id)
    return paired_difference(one, two, scripts)


def _json(estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {
        "mean": None if estimate.value is None else round(estimate.value, 6),
        "n": estimate.n,
        "interval": None if interval is None else [round(interval.low, 6), round(interval.high, 6)],
    }
