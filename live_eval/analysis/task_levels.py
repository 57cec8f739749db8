"""Relate the scores of the benchmark's levels: understanding, reasoning and conversation.

All relations are computed over the same recordings (script, variant, source), regardless of the question:

* correlations: rank correlations between answer accuracy and a metric of another level. Values are averaged
  by recording; recordings with both values are then averaged by script or attribute.
* cue recognised: ratings of replies to recordings whose cue was recognised, minus ratings of other replies. A
  cue counts as recognised if every question about it was answered correctly: questions of the coarse-grained
  type, of the cue's dimension, or of a type not in the paper. Recordings without such a question and neutral
  recordings are excluded. The difference is not necessarily causal: a cue that is hard to recognise may also
  be hard to reply to.
* speech source: scores of human minus synthetic recordings, paired by task, script, variant and question
  type.

Dialogue turns are excluded because their replies depend on earlier turns. Values from fewer than
`MIN_CLUSTERS` scripts or attributes are missing, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.agreement import spearman
from live_eval.analysis.leaderboard_columns import BoardColumn, leaderboard_columns
from live_eval.analysis.statistics.intervals import (
    MIN_CLUSTERS,
    Estimate,
    estimate_mean,
    estimate_statistic,
    paired_difference,
    rounded,
)
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable
from live_eval.data import QUESTION_TYPES
from live_eval.text.wording import counted
from live_eval.types import Task, Variant

__all__ = [
    "ASKS_FOR",
    "PLOTTED",
    "CueRecognised",
    "Point",
    "Relation",
    "SourceGap",
    "TaskLevels",
    "relate_levels",
    "related_columns",
]

PLOTTED = (
    ("understanding", "reasoning"),
    ("understanding", "C4"),
    ("understanding", "VES"),
    ("reasoning", "C1"),
    ("reasoning", "VES"),
)
"""The column pairs plotted in the paper."""

ASKS_FOR: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "gender": frozenset({"gender"}),
        "age": frozenset({"age group"}),
        "physiological state": frozenset({"voice style", "non-verbal expression"}),
        "emotion": frozenset({"speech emotion"}),
        "volume": frozenset({"voice style"}),
        "speed": frozenset({"speaking pace"}),
        "non-verbal expression": frozenset({"non-verbal expression"}),
        **dict.fromkeys(
            ("weather", "location", "human sounds", "sudden event", "music"), frozenset({"background sound"})
        ),
    }
)
"""Question types that ask for a cue, by the cue's fine dimension; the coarse-grained type asks for all.

The paper does not state this mapping.
"""

_COARSE_GRAINED = "coarse-grained"
_HUMAN, _SYNTHESIS = "human", "synthesis"
_NEUTRAL = "neutral"
_UNDEFINED = "all values of one side are equal"

Unit: TypeAlias = Literal["script", "attribute"]


class Point(NamedTuple):
    """The means of two columns for a script or attribute."""

    name: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Relation:
    """The rank correlation between two columns of different levels.

    Args:
        first: Title of one column.
        second: Title of the other column.
        unit: What is ranked: scripts or vocal attributes.
        correlation: Spearman's rank correlation, or the reason why it is missing.
        points: Pairs of means to correlate and plot.
    """

    first: str
    second: str
    unit: Unit
    correlation: Estimate
    points: tuple[Point, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``show --json``."""
        about = {"first": self.first, "second": self.second, "unit": self.unit}
        return {**about, **self.correlation.as_json()}


@dataclass(frozen=True, slots=True)
class CueRecognised:
    """A column's means over replies with the cue recognised and with the cue missed, and their difference."""

    measure: str
    recognised: Estimate
    missed: Estimate
    difference: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``show --json``."""
        return {
            "measure": self.measure,
            "recognised": self.recognised.as_json(),
            "missed": self.missed.as_json(),
            "difference": self.difference.as_json(),
        }


@dataclass(frozen=True, slots=True)
class SourceGap:
    """The difference in a score between human and synthetic recordings of the same scripts.

    Args:
        task: Task of the scored turns.
        synthesis: Mean over the paired synthetic recordings.
        human: Mean over the paired human recordings.
        difference: Human minus synthetic, paired.
        unpaired: Number of scored recordings without a counterpart; for questions, one per question type.
    """

    score: str
    task: Task
    synthesis: float
    human: float
    difference: Estimate
    unpaired: int

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``show --json``."""
        # With too few pairs for the difference, the means are not given either.
        shown = self.difference.value is not None
        return {
            "score": self.score,
            "task": self.task.value,
            "synthesis": rounded(self.synthesis) if shown else None,
            "human": rounded(self.human) if shown else None,
            "difference": self.difference.as_json(),
            "unpaired": self.unpaired,
        }


@dataclass(frozen=True, slots=True)
class TaskLevels:
    """The relations between a run's levels; empty if the run has only one level.

    Args:
        relations: Correlations between scored columns of different levels, by script and by attribute.
        cue_recognised: Reply columns split by cue recognition, if there are questions about the same
            recordings.
        speech_source: Human minus synthetic scores, if both sources have common scripts.
    """

    relations: tuple[Relation, ...]
    cue_recognised: tuple[CueRecognised, ...]
    speech_source: tuple[SourceGap, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the values as printed by ``show --json``."""
        return {
            "relations": [relation.as_json() for relation in self.relations],
            "cue_recognised": [each.as_json() for each in self.cue_recognised],
            "speech_source": [gap.as_json() for gap in self.speech_source],
        }


def related_columns() -> tuple[BoardColumn, ...]:
    """Return the paper's columns that can be related: answers to questions, and ratings."""
    return tuple(
        column
        for column in leaderboard_columns()
        if (column.task.asks or column.rated) and column.scale is not None
    )


def relate_levels(summary: RunSummary, *, asks_for: Mapping[str, frozenset[str]] = ASKS_FOR) -> TaskLevels:
    """Return the relations between the levels of a run.

    `asks_for` maps a cue's fine dimension to the question types that ask for it.
    """
    table = summary.table
    turns = [turn for turn in summary.turns if turn.dialogue_id is None]
    scored: dict[BoardColumn, list[tuple[Observation, float]]] = {}
    for column in related_columns():
        of_task = [turn for turn in turns if turn.task is column.task]
        if (score := table.filling(column)) is not None and (found := table.scored(of_task, score)):
            scored[column] = found
    attributes = {
        _recording(turn): turn.cue.attribute
        for turn in turns
        if turn.cue is not None and turn.cue.attribute not in (None, _NEUTRAL)
    }
    return TaskLevels(
        relations=tuple(_relations(scored, attributes)),
        cue_recognised=tuple(_cue_recognised(scored, attributes.keys(), asks_for)),
        speech_source=tuple(_speech_source(table, turns)),
    )


class _Recording(NamedTuple):
    """A script spoken in one style by one source, regardless of the question."""

    source: str
    script_id: str
    variant: Variant


def _recording(turn: Observation) -> _Recording:
    return _Recording(turn.source, turn.script_id, turn.variant)


def _means(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    found: dict[Any, list[float]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return {key: fmean(values) for key, values in found.items()}


def _if_enough(estimate: Estimate, unit: str = "script") -> Estimate:
    """Return an estimate, without its value if there are too few scripts or attributes."""
    if estimate.clusters >= MIN_CLUSTERS:
        return estimate
    reason = f"too few: {counted(estimate.clusters, unit)}, expected at least {MIN_CLUSTERS}"
    return Estimate(None, estimate.n, estimate.clusters, reason=reason)


def _relations(
    scored: Mapping[BoardColumn, Sequence[tuple[Observation, float]]],
    attributes: Mapping[_Recording, str | None],
) -> Iterator[Relation]:
    """Yield the correlation for each pair of columns of different tasks, by script and by attribute."""
    units: tuple[tuple[Unit, Callable[[_Recording], str | None]], ...] = (
        ("script", lambda recording: recording.script_id),
        ("attribute", attributes.get),
    )
    means = {
        column: _means((_recording(turn), value) for turn, value in found) for column, found in scored.items()
    }
    for first, second in combinations(means, 2):
        if first.task is second.task:
            continue
        for unit, unit_of in units:
            common = [
                (recording, name)
                for recording in means[first]
                if recording in means[second] and (name := unit_of(recording))
            ]
            one = _means((name, means[first][recording]) for recording, name in common)
            other = _means((name, means[second][recording]) for recording, name in common)
            found = spearman(list(one.values()), list(other.values()), list(one))
            if found.value is None:
                found = Estimate(None, found.n, found.clusters, reason=_UNDEFINED)
            points = tuple(Point(name, value, other[name]) for name, value in one.items())
            yield Relation(first.title, second.title, unit, _if_enough(found, unit), points)


def _cue_recognised(
    scored: Mapping[BoardColumn, Sequence[tuple[Observation, float]]],
    with_cue: Iterable[_Recording],
    asks_for: Mapping[str, frozenset[str]],
) -> Iterator[CueRecognised]:
    """Yield the reply columns, split by whether the questions about the cue were answered correctly."""
    answers = next((found for column, found in scored.items() if column.task is Task.UNDERSTANDING), None)
    if answers is None:
        return
    share = _means((_recording(turn), value) for turn, value in answers if _asks_for_cue(turn, asks_for))
    recognised = {recording: share[recording] == 100.0 for recording in with_cue if recording in share}
    for column, found in scored.items():
        if column.task is not Task.CONVERSATION:
            continue
        replies = sorted(
            (value, turn.script_id, recognised[_recording(turn)])
            for turn, value in found
            if _recording(turn) in recognised
        )
        sides = [[reply for reply in replies if reply[2] is known] for known in (True, False)]
        means = [
            _if_enough(estimate_mean([value for value, _, _ in side], [script for _, script, _ in side]))
            for side in sides
        ]
        yield CueRecognised(column.title, means[0], means[1], _difference(replies, means))


def _asks_for_cue(turn: Observation, asks_for: Mapping[str, frozenset[str]]) -> bool:
    kind, fine = turn.question_kind, turn.cue.fine if turn.cue is not None else None
    if fine is None:
        return False
    return (
        kind == _COARSE_GRAINED
        or kind in asks_for.get(fine, ())
        or kind not in QUESTION_TYPES[Task.UNDERSTANDING]
    )


def _difference(replies: Sequence[tuple[float, str, bool]], means: Sequence[Estimate]) -> Estimate:
    """Return the mean with the cue recognised minus the mean with the cue missed, resampled by script."""
    for mean, which in zip(means, ("recognised", "not recognised"), strict=True):
        if mean.value is None:
            return Estimate(None, len(replies), 0, reason=f"{mean.reason} with the cue {which}")
    values = np.asarray([value for value, _, _ in replies])
    known = np.asarray([recognised for _, _, recognised in replies])

    def difference(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        parts = []
        for side in (known, ~known):
            count = drawn[:, side].sum(axis=1)
            total = drawn[:, side] @ values[side]
            parts.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
        return np.asarray(parts[0] - parts[1], np.float64)

    return estimate_statistic(difference, [script for _, script, _ in replies])


def _speech_source(table: ScoreTable, turns: Sequence[Observation]) -> Iterator[SourceGap]:
    """Yield each score's difference between human and synthetic recordings, if the run has both."""
    if not {_HUMAN, _SYNTHESIS} <= {turn.source for turn in turns}:
        return
    for column in table.columns:
        for task in Task:
            if task not in column.tasks:
                continue
            first, second = (_by_question(table, turns, column, task, each) for each in (_SYNTHESIS, _HUMAN))
            pairs = [key for key in first if key in second]
            if not pairs:
                continue
            before, after = [first[key] for key in pairs], [second[key] for key in pairs]
            yield SourceGap(
                score=column.name,
                task=task,
                synthesis=fmean(before),
                human=fmean(after),
                difference=_if_enough(paired_difference(before, after, [key[0] for key in pairs])),
                unpaired=len(first) + len(second) - 2 * len(pairs),
            )


def _by_question(
    table: ScoreTable, turns: Sequence[Observation], column: ScoreColumn, task: Task, source: str
) -> dict[Any, float]:
    """Return a score's means by script, variant and question type."""
    spoken = [turn for turn in turns if turn.task is task and turn.source == source]
    return _means(
        ((turn.script_id, turn.variant, turn.question_kind), value)
        for turn, value in table.scored(spoken, column)
    )
