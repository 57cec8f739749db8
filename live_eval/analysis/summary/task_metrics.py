"""Compute the metrics of tasks other than conversation: accuracy by question type, transcription errors, and
the parts of other benchmarks.

The metrics are computed from the scores of the multiple-choice and transcription judges. A question that the
endpoint failed to answer counts as wrong; a question whose turn failed for another reason is excluded. An
utterance that the endpoint did not repeat has no word error rate. Captured turns without a score are excluded
from all means. The number of excluded turns is reported with the means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
    estimate_statistic,
    interval_json,
    rounded,
)
from live_eval.analysis.summary.benchmark_parts import PartSummary, summarise_parts
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreTable
from live_eval.data import QUESTION_TYPES
from live_eval.judging import JudgeRole
from live_eval.types import Task

__all__ = ["ErrorRates", "QuestionSummary", "TaskSummary", "summarise_tasks"]

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSummary:
    """The metrics of answers to questions of one type or of all types.

    Args:
        kind: Question type; empty for all.
        asked: Number of turns with such a question, including failed turns.
        accuracy: Percentage of correct answers among scored and failed turns; resampled by script.
        failed: Number of turns without an answer due to the endpoint, which count as wrong.
        excluded: Number of turns that failed for a reason unrelated to the model.
        unparsed: Number of scored replies that choose no option or several options, which count as wrong.
        refused: Number of unparsed replies that decline to answer.
    """

    kind: str
    asked: int
    accuracy: Estimate
    failed: int
    excluded: int
    unparsed: int
    refused: int

    @property
    def unparsed_share(self) -> float | None:
        """The percentage of scored replies that do not choose exactly one option."""
        scored = self.accuracy.n - self.failed
        return 100.0 * self.unparsed / scored if scored else None

    @property
    def of_answered(self) -> float | None:
        """The percentage of scored replies that are correct."""
        scored, value = self.accuracy.n - self.failed, self.accuracy.value
        return value * self.accuracy.n / scored if scored and value is not None else None

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        return {
            "asked": self.asked,
            "n": self.accuracy.n,
            "accuracy": rounded(self.accuracy.value),
            "interval": interval_json(self.accuracy.interval),
            "reason": self.accuracy.reason,
            "failed": self.failed,
            "excluded": self.excluded,
            "of_answered": rounded(self.of_answered),
            "unparsed": self.unparsed,
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """The word error rate of the repeated text, in percent, with ``normalized`` or ``raw`` text.

    For Chinese, it is the rate of ``characters``. `mean` is the mean over utterances, as in EchoMind;
    `pooled` is the total errors divided by the total words or characters.
    """

    how: str
    mean: Estimate
    pooled: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        return {"mean": self.mean.as_json(), "pooled": self.pooled.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """The metrics of a task: answers (all, then by question type), transcription errors, benchmark parts."""

    task: Task
    turns: int
    captured: int
    questions: tuple[QuestionSummary, ...] = ()
    errors: tuple[ErrorRates, ...] = ()
    parts: tuple[PartSummary, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        found: dict[str, Any] = {"turns": self.turns, "captured": self.captured}
        if self.questions:
            found |= self.questions[0].as_json()
            found["kinds"] = {each.kind: each.as_json() for each in self.questions[1:]}
        if self.errors:
            found["word_errors"] = {each.how: each.as_json() for each in self.errors}
        if self.parts:
            found["parts"] = {each.part: each.as_json() for each in self.parts}
        return found


def summarise_tasks(table: ScoreTable, turns: Sequence[Observation]) -> tuple[TaskSummary, ...]:
    """Summarise each task in a run, in level order."""
    by_task = {task: [turn for turn in turns if turn.task is task] for task in Task}
    return tuple(
        TaskSummary(
            task=task,
            turns=len(of_task),
            captured=sum(turn.captured for turn in of_task),
            questions=_questions(table, of_task, task) if task.asks else (),
            errors=_all_errors(table, of_task) if task is Task.TRANSCRIPTION else (),
            parts=summarise_parts(table, of_task) if task is Task.BENCHMARK else (),
        )
        for task, of_task in by_task.items()
        if of_task
    )


def _questions(table: ScoreTable, turns: Sequence[Observation], task: Task) -> tuple[QuestionSummary, ...]:
    by_kind: dict[str, list[Observation]] = {}
    for turn in turns:
        by_kind.setdefault(turn.question_kind or _UNKNOWN, []).append(turn)
    known = [kind for kind in QUESTION_TYPES[task] if kind in by_kind]
    kinds = [*known, *sorted(by_kind.keys() - set(known))]
    return (_kind(table, turns, ""), *(_kind(table, by_kind[kind], kind) for kind in kinds))


def _kind(table: ScoreTable, turns: Sequence[Observation], kind: str) -> QuestionSummary:
    column = table.accuracy
    counted = table.scored(turns, column) if column is not None else []
    rows = [table.answer(turn.turn_id) for turn, _ in counted if turn.captured]
    answers = [row.values for row in rows if row is not None]
    return QuestionSummary(
        kind=kind,
        asked=len(turns),
        accuracy=estimate_share([value for _, value in counted], [turn.script_id for turn, _ in counted]),
        failed=len(counted) - len(answers),
        excluded=sum(turn.is_excluded for turn in turns),
        unparsed=sum(values.get("parsed") == 0 for values in answers),
        refused=sum(values.get("refused", 0) > 0 for values in answers),
    )


def _all_errors(table: ScoreTable, turns: Sequence[Observation]) -> tuple[ErrorRates, ...]:
    """Return the rates of words, and of characters if there are any or no words."""
    words, raw, characters = (_errors(table, turns, how) for how in ("normalized", "raw", "characters"))
    if not characters.mean.n:
        return words, raw
    return (words, raw, characters) if words.mean.n else (characters,)


def _errors(table: ScoreTable, turns: Sequence[Observation], how: str) -> ErrorRates:
    rates: list[float] = []
    counts: list[tuple[float, float]] = []
    scripts: list[str] = []
    for turn in turns:
        row = table.row(turn.turn_id, JudgeRole.TRANSCRIPTION) if turn.captured else None
        if row is None or row.status != "scored":
            continue
        counted = row.detail.get(how)
        if how in row.values and isinstance(counted, dict):
            rates.append(row.values[how])
            counts.append((float(counted["errors"]), float(counted["words"])))
            scripts.append(turn.script_id)
    sums = np.asarray(counts, np.float64).reshape(-1, 2)

    def all_errors(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return total errors divided by total words, in percent."""
        errors, words = (drawn @ sums).T
        return np.asarray(100.0 * errors / words, np.float64)

    return ErrorRates(
        how=how, mean=estimate_mean(rates, scripts), pooled=estimate_statistic(all_errors, scripts)
    )
