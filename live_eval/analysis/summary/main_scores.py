"""Choose the main score of each task: the score that the benchmark's paper uses to compare models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.leaderboard_columns import BoardColumn, leaderboard_columns
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable
from live_eval.types import Task

__all__ = ["MainScore", "main_scores"]


@dataclass(frozen=True, slots=True)
class MainScore:
    """A task's main score.

    Args:
        mean: Mean over all scored turns of the task.
        missing: Headings of preferred scores that the run does not have.
    """

    task: Task
    column: ScoreColumn
    mean: Estimate
    missing: tuple[str, ...]

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
    found = (_main_score(task, table, [turn for turn in turns if turn.task is task]) for task in Task)
    return tuple(each for each in found if each is not None)


def _main_score(task: Task, table: ScoreTable, turns: Sequence[Observation]) -> MainScore | None:
    columns = [column for column in leaderboard_columns() if column.task is task]
    columns.sort(key=lambda column: (not column.picks_prompt, not column.heat_map))  # stable
    missing: list[BoardColumn] = []
    for column in columns:
        score = table.filling(column)
        mean = table.mean(turns, score) if score is not None else None
        if score is not None and mean is not None and mean.value is not None:
            preferred = [each.title for each in missing if each.picks_prompt or each.heat_map]
            return MainScore(task, score, mean, tuple(preferred))
        missing.append(column)
    return None
