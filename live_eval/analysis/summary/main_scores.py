"""Choose the main score of each task: the score that the benchmark's paper uses to compare models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.leaderboard_columns import BoardColumn, leaderboard_columns
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable
from live_eval.types import Task

__all__ = ["MainScore", "main_columns", "main_scores"]


@dataclass(frozen=True, slots=True)
class MainScore:
    """A task's main score.

    Args:
        mean: Mean over all scored turns of the task.
        missing: Headings of preferred scores that the run does not have.
        preferred: Whether it is itself a preferred score, with which the benchmark compares prompts or cues.
    """

    task: Task
    column: ScoreColumn
    mean: Estimate
    missing: tuple[str, ...]
    preferred: bool

    def as_json(self) -> dict[str, Any]:
        """Return the score as printed by ``show --json``."""
        return {
            "task": self.task.value,
            "score": self.column.as_json(),
            "mean": self.mean.as_json(scripts=True),
            "missing": list(self.missing),
        }


def main_scores(table: ScoreTable, turns: Sequence[Observation]) -> tuple[MainScore, ...]:
    """Return the main score of each task in a run, in level order; tasks without scores are omitted.

    Columns that the paper uses to choose the prompt have priority, then columns with a heat map, then the
    others in the order of the paper's tables.
    """
    return tuple(
        MainScore(task, column, table.mean(of_task, column), missing, preferred)
        for task, of_task, column, missing, preferred in _chosen(table, turns)
    )


def main_columns(table: ScoreTable, turns: Sequence[Observation]) -> tuple[ScoreColumn, ...]:
    """Return the columns of a run's main scores; much faster than `main_scores`, which estimates means."""
    return tuple(dict.fromkeys(column for _, _, column, *_ in _chosen(table, turns)))


def _chosen(
    table: ScoreTable, turns: Sequence[Observation]
) -> Iterator[tuple[Task, Sequence[Observation], ScoreColumn, tuple[str, ...], bool]]:
    """Yield each task with a score, its turns, and the fields of its main score except the mean."""
    for task in Task:
        of_task = [turn for turn in turns if turn.task is task]
        if of_task and (found := _main_column(task, table, of_task)) is not None:
            yield task, of_task, *found


def _main_column(
    task: Task, table: ScoreTable, turns: Sequence[Observation]
) -> tuple[ScoreColumn, tuple[str, ...], bool] | None:
    columns = [column for column in leaderboard_columns() if column.task is task]
    columns.sort(key=lambda column: (not column.picks_prompt, not column.heat_map))  # stable
    missing: list[BoardColumn] = []
    for column in columns:
        score = table.filling(column)
        if score is not None and table.scored(turns, score):
            titles = tuple(each.title for each in missing if _is_preferred(each))
            return score, titles, _is_preferred(column)
        missing.append(column)
    return None


def _is_preferred(column: BoardColumn) -> bool:
    return column.picks_prompt or column.heat_map
